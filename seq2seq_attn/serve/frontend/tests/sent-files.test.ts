/** Names of files in the state of the page, and the files that the server reads for them. */

import { beforeEach, expect, test, vi } from "vitest";
import type { ModelInfo, SeenRecord } from "../src/api.ts";
import { exampleName, exampleOf, keep, lineOf, readsText, seenOf } from "../src/sent-files.ts";
import { wav } from "../src/sound.ts";

const info = (values: Partial<ModelInfo>): ModelInfo => ({
  name: "m", source: "en", target: "en", kind: "recurrent", parameters: 1, heads: [1], max_length: 9,
  search: { beam_size: 1, length_penalty: 0 },
  examples: [{ source: "data:audio/wav;base64,AAAA", target: "one", links: null }],
  ...values,
});

test("a sentence is read as it is, and names a file for no model of text", () => {
  for (const text of [info({}), info({ reads: "text" })]) {
    expect(readsText(text)).toBe(true);
    expect(lineOf(text, "example:1")).toBe("example:1");
  }
});

test("a name leads to the example or to the user's own file, and nothing else does", () => {
  const speech = info({ reads: "speech" });
  expect(readsText(speech)).toBe(false);
  expect(exampleOf(exampleName(0))).toBe(0);
  expect(lineOf(speech, exampleName(0))).toBe(speech.examples[0]!.source);
  expect(lineOf(speech, keep("a.wav", "data:audio/wav;base64,BBBB"))).toBe("data:audio/wav;base64,BBBB");
  expect(keep("a.wav", "data:audio/wav;base64,BBBB")).toBe("file:a.wav");
  const another = keep("a.wav", "data:audio/wav;base64,CCCC");
  expect(lineOf(speech, another)).toBe("data:audio/wav;base64,CCCC");
  expect(lineOf(speech, "file:a.wav")).toBe("data:audio/wav;base64,BBBB");
  for (const other of ["", "Tom chases Jerry .", "example:2", "example:0", "example:x", "file:b.wav", "data:audio/wav;base64,CCCC"]) {
    expect(lineOf(speech, other)).toBeNull();
  }
});

beforeEach(() => vi.stubGlobal("Audio", class { constructor(readonly src: string) {} }));

test("a source that was seen is the same record again, so that its sound goes on", () => {
  const record: SeenRecord = { picture: "data:,", shape: [4, 16], grid: 1, positions: 8, seconds: 2, sound: "data:audio/wav," };
  const seen = seenOf(record);
  expect(seenOf(record)).toBe(seen);
  expect(seen.style).toBe("--shape: 16/4; --tile: 10.0rem");
  expect(seenOf({ ...record, sound: null })).toMatchObject({ audio: null });
  expect(seenOf({ ...record }).id).not.toBe(seen.id);
});

test("samples are written as 16 bits at their rate, and what is too loud is cut", async () => {
  const file = new DataView(await wav(Float32Array.from([0, 0.5, -1, 2]), 8000).arrayBuffer());
  const text = (place: number): string => String.fromCharCode(...[0, 1, 2, 3].map((i) => file.getUint8(place + i)));
  expect([text(0), text(8), text(12), text(36)]).toEqual(["RIFF", "WAVE", "fmt ", "data"]);
  expect(file.byteLength).toBe(44 + 8);
  expect([file.getUint32(4, true), file.getUint32(40, true)]).toEqual([44, 8]);
  expect([file.getUint16(22, true), file.getUint32(24, true), file.getUint32(28, true), file.getUint16(34, true)]).toEqual([1, 8000, 16000, 16]);
  expect([0, 1, 2, 3].map((i) => file.getInt16(44 + 2 * i, true))).toEqual([0, 16384, -32767, 32767]);
});
