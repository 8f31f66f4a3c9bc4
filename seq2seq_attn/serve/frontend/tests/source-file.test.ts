/** Sources that are files: the last choice is read, and the microphone is let go. */

import { afterEach, expect, test, vi } from "vitest";
import type { ModelInfo } from "../src/api.ts";
import { record } from "../src/sound.ts";
import { SourceFile } from "../src/source-file.ts";

const lines = vi.hoisted(() => new Map<string, (line: string) => void>());
vi.mock("../src/sound.ts", async (original) => ({
  ...(await original<object>()),
  asLine: (file: File) => new Promise((done) => lines.set(file.name, done)), // which takes as long as it takes
}));

afterEach(() => void vi.unstubAllGlobals());

test("of files that are read at the same time, the one that was chosen last is shown", async () => {
  const element = new SourceFile();
  const asked: string[] = [];
  Object.assign(element, { info: { reads: "frames", examples: [] } as unknown as ModelInfo, source: "" });
  element.addEventListener("change-sentence", (event) => asked.push((event as CustomEvent<string>).detail));
  const choose = (name: string): void =>
    void (element as unknown as { choose: (event: object) => Promise<void> }).choose({ target: { files: [new File([], name)] } });
  choose("large.npy");
  choose("small.npy");
  lines.get("small.npy")!("data:,small");
  lines.get("large.npy")!("data:,large");
  await new Promise((done) => setTimeout(done));
  expect(asked).toEqual(["file:small.npy"]);
});

test("a file that a link names is read once the user has chosen it", async () => {
  const element = new SourceFile();
  const asked: string[] = [];
  Object.assign(element, { info: { reads: "frames", examples: [] } as unknown as ModelInfo, source: "file:linked.npy" });
  for (const kind of ["change-sentence", "again"]) element.addEventListener(kind, () => asked.push(kind));
  void (element as unknown as { choose: (event: object) => Promise<void> }).choose({ target: { files: [new File([], "linked.npy")] } });
  lines.get("linked.npy")!("data:,linked");
  await new Promise((done) => setTimeout(done));
  expect(asked).toEqual(["again"]);
});

test("the microphone is let go when the page is left, also while it is asked for", async () => {
  const stopped: string[] = [];
  const microphone = (name: string): void => {
    vi.stubGlobal("navigator", { mediaDevices: { getUserMedia: async () => ({ getTracks: () => [{ stop: () => stopped.push(name) }] }) } });
    vi.stubGlobal("MediaRecorder", class { addEventListener() {} start() {} });
  };
  const [recorded, asked] = [new AbortController(), new AbortController()];
  microphone("recorded");
  await record(recorded.signal);
  expect(stopped).toEqual([]);
  recorded.abort();
  microphone("asked");
  const recording = record(asked.signal);
  asked.abort();
  await expect(recording).rejects.toMatchObject({ name: "AbortError" });
  expect(stopped).toEqual(["recorded", "asked"]);
});
