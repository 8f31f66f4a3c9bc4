/** The story: its texts in two languages, and what it computes itself. */

import { describe, expect, test } from "vitest";
import type { ModelInfo } from "../src/api.ts";
import { defaults, parseState, writeState } from "../src/state.ts";
import { EN } from "../src/story/en.ts";
import { castOf, compared, filled, languageOf, meanOf, selfWeights } from "../src/story/math.ts";
import { ZH } from "../src/story/zh.ts";

const names = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();

describe("the texts of both languages", () => {
  test.each(Object.keys(EN) as (keyof typeof EN)[])("fill in the same names: %s", (key) => expect(names(ZH[key])).toEqual(names(EN[key])));
  test("differ, and none is empty", () => {
    for (const key of Object.keys(EN) as (keyof typeof EN)[]) {
      expect(ZH[key].trim()).not.toBe("");
      expect(EN[key].trim()).not.toBe("");
      expect(ZH[key] === EN[key] && key !== "softmaxTitle").toBe(false);
    }
  });
  test("are filled in", () => expect(filled(EN.same, { same: 3, all: 7 })).toBe("3 of 7 words as in the reference"));
});

test("a reader's first language that the story has is chosen, or else English", () => {
  expect(languageOf(["de-DE", "zh-Hant-TW", "en"])).toBe("zh");
  expect(languageOf(["fr", "EN-us", "zh"])).toBe("en");
  expect(languageOf(["de"])).toBe("en");
});

test("a link holds the story's language", () => {
  for (const language of ["zh", "en", null] as const) {
    const state = { ...defaults(), tab: "story" as const, language };
    expect(parseState(writeState(state))).toEqual({ state, unread: [] });
  }
  expect(parseState("story?language=xx")).toEqual({ state: { ...defaults(), tab: "story" }, unread: ["language=xx"] });
});

test("each model plays the part that it can", () => {
  const model = (name: string, heads: number[], kind = "recurrent") => ({ name, heads, kind }) as ModelInfo;
  const [none, one, many, transformer] = [model("none", []), model("one", [1]), model("many", [2]), model("t", [4, 4], "transformer")];
  expect(castOf([transformer, none, one])).toEqual({ vector: none, attention: one, heads: transformer, transformer });
  expect(castOf([many])).toEqual({ vector: null, attention: many, heads: many, transformer: null });
  expect(castOf([none])).toEqual({ vector: none, attention: null, heads: null, transformer: null });
});

test("words of a reference are found again in their order", () => {
  const { own, reference, same } = compared("a b c d", "a x c y z");
  expect(same).toBe(2);
  expect(reference.flatMap((cell) => cell?.token ?? [])).toEqual(["a", "b", "c", "d"]);
  expect(own.flatMap((cell) => (cell?.differs ? cell.token : []))).toEqual(["x", "y", "z"]);
});

describe("self-attention of the worked example", () => {
  const vectors = [[1, 0], [0, 2], [-1, 0]];
  test("is softmax(x · x / √d) in each row", () => {
    const [first] = selfWeights(vectors, null);
    const parts = [1, 0, -1].map((e) => Math.exp(e / Math.SQRT2));
    first!.forEach((weight, j) => expect(weight).toBeCloseTo(parts[j]! / (parts[0]! + parts[1]! + parts[2]!)));
  });
  test("is sharper at a low temperature", () => {
    expect(selfWeights(vectors, null, 0.1)[0]![0]).toBeGreaterThan(selfWeights(vectors, null)[0]![0]!);
  });
  test("has heads that see one number each", () => {
    expect(selfWeights(vectors, 1)[0]).toEqual([1 / 3, 1 / 3, 1 / 3]); // a query of 0
    const [, second] = selfWeights(vectors, 1);
    expect(second![1]! / second![0]!).toBeCloseTo(Math.exp(4));
  });
  test("has a mean over heads whose rows sum to 1", () => {
    for (const row of meanOf([0, 1].map((head) => selfWeights(vectors, head)))) expect(row.reduce((a, b) => a + b)).toBeCloseTo(1);
  });
});
