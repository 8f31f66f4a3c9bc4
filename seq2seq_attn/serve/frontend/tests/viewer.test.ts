/** The sentence that the viewer of a report shows, while the weights of another one are unpacked. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Corpus, View } from "../src/report/corpus.ts";
import { AttentionViewer } from "../src/report/viewer.ts";

vi.mock("../src/report/panel.ts", () => ({})); // whose figures need a browser

const waiting = new Map<number, () => void>();
const corpus = {
  pairs: [1, 2, 3].map((line) => ({ line, source: "a", reference: "b", gold: [] })),
  arms: [], best: "", firstLine: 1,
  viewsOf: (place: number) => new Promise<View[]>((done) => waiting.set(place, () => done([]))),
} as unknown as Corpus;

beforeEach(() => {
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("location", { hash: "#attention?line=1" });
  vi.stubGlobal("history", { replaceState: () => undefined });
});
afterEach(() => void vi.unstubAllGlobals());

/** The weights of a sentence are there. */
async function unpack(place: number): Promise<void> {
  waiting.get(place)!();
  await new Promise((done) => setTimeout(done));
}

/** What the reader does, which the elements of the viewer call. */
interface Reader {
  showSentence: (place: number) => Promise<void>;
  change: (patch: object) => void;
}

async function opened(): Promise<{ viewer: AttentionViewer; reader: Reader }> {
  const viewer = new AttentionViewer(corpus);
  void viewer.restore();
  await unpack(0);
  return { viewer, reader: viewer as unknown as Reader };
}

test("of two sentences the one that was chosen last is shown, whichever is there first", async () => {
  const { viewer, reader } = await opened();
  void reader.showSentence(1);
  void reader.showSentence(2);
  await unpack(2);
  await unpack(1);
  expect(viewer.state.place).toBe(2);
});

test("what is typed into the search meanwhile is kept", async () => {
  const { viewer, reader } = await opened();
  void reader.showSentence(1);
  reader.change({ filters: { ...viewer.state.filters, search: "Tom" } });
  await unpack(1);
  expect([viewer.state.place, viewer.state.filters.search]).toEqual([1, "Tom"]);
});
