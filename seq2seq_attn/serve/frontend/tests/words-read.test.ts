/** What is said of words that are read otherwise than they are written, and which of several lines is read. */

import { describe, expect, test } from "vitest";
import { asRead } from "../src/format.ts";
import { linesOf, lineToRead } from "../src/sentences.ts";
import { searchOf } from "../src/session.ts";
import { defaults } from "../src/state.ts";
import { begun, grouped, withWord } from "../src/words-read.ts";

const JERRY = { word: "Jerry.", place: 2, tokens: ["Jerry", "."], suggestions: [] };

test("models that read a sentence in the same way are one group", () => {
  const groups = grouped([["a", [JERRY]], ["b", []], ["c", [{ ...JERRY }]]]);
  expect(groups).toEqual([{ names: ["a", "c"], words: [JERRY] }]);
});

test("a suggestion takes the place of its word", () => {
  expect(withWord(" I  love you", 2, "your")).toBe("I love your");
  expect(withWord("Jerry. Jerry.", 1, "Jerry .")).toBe("Jerry. Jerry .");
});

test("a label that is marked stands for the unknown token", () => {
  expect(["love (<unk>)", "Tom", "<unk>"].map(asRead)).toEqual(["<unk>", "Tom", "<unk>"]);
});

describe("the tokens of a typed beginning", () => {
  test.each([
    ["懒女孩", ["懒", "女孩", "。"], ["懒", "女孩"]],
    ["Zwei hunde", ["▁zwei", "▁hun", "de", "▁ren"], ["▁zwei", "▁hun", "de"]],
    ["懒猫", ["懒", "女孩"], null],
  ])("%s", (typed, tokens, read) => expect(begun(typed, tokens)).toEqual(read));
});

describe("of several lines", () => {
  const text = "a b\n\n  c   d \ne";
  test("each is a sentence", () => expect(linesOf(text)).toEqual(["a b", "c d", "e"]));
  test("the first is read when they are pasted, or the one that was", () => {
    expect(lineToRead(text, null, "x")).toBe("a b");
    expect(lineToRead(text, null, "c d")).toBe("c d");
  });
  test.each([[0, "a b"], [3, "a b"], [8, "c d"], [text.length, "e"]])("the one at place %i is read while it is typed", (caret, line) =>
    expect(lineToRead(text, caret, "x")).toBe(line));
  test("a blank one is not read", () => {
    expect(lineToRead(text, 4, "e")).toBe("e");
    expect(lineToRead(" \n", 0, "e")).toBe("");
  });
});

test("a search that was not chosen is that of the model", () => {
  const own = { search: { beam_size: 5, length_penalty: 0.6 } };
  expect(searchOf(defaults(), own)).toEqual({ beam_size: 5, length_penalty: 0.6 });
  expect(searchOf({ ...defaults(), beam: 1 }, own)).toEqual({ beam_size: 1 });
  expect(searchOf({ ...defaults(), beam: 2, penalty: 0 }, own)).toEqual({ beam_size: 2, length_penalty: 0 });
});
