/** Text to ids and back in a file that translates offline. */

import { describe, expect, test } from "vitest";
import { UNKNOWN } from "../src/format.ts";
import { Coder, EOS, PAD, UNK } from "../src/offline/codec.ts";

const SPECIALS = ["<unk>", "<pad>", "<s>", "</s>"];
const words = new Coder({ kind: "word", lowercase: false, match_known_forms: true, tokens: [...SPECIALS, "Tom", "dog", "the", ".", ",", "Jerry"] });
const characters = new Coder({ kind: "character", lowercase: true, match_known_forms: false, tokens: [...SPECIALS, "a", "▁", "▁▁", "汤"] });

describe("words", () => {
  test.each([
    ["Tom  the\u00a0dog", ["Tom", "the", "dog"]],
    ["tom THE Dog.", ["Tom", "the", "dog", "."]],
    ["dog.,", ["dog", ".", ","]],
    ["Zaphod!", ["Zaphod!"]],
    ["Dog!!", ["dog", "!!"]],
    ["  ", []],
  ])("%j are read in known forms", (line, pieces) => expect(words.pieces(line)).toEqual(pieces));
  test("that are unknown, or spelled like a special token, have the unknown id", () => {
    expect(words.encode(["Zaphod", "</s>", "<unk>", "Tom"])).toEqual([UNK, UNK, UNK, 4]);
    expect(words.id("</s>")).toBeUndefined();
    expect(words.id("<unk>")).toBe(UNK);
  });
  test("are decoded to the end of the sentence", () => expect(words.decode([4, UNK, PAD, 5, EOS, 6])).toBe("Tom <unk> dog"));
});

describe("words that are read otherwise than they are written", () => {
  test("are listed in the form that is known", () => {
    expect(words.readAs("TOM  dog.")).toEqual([
      { word: "TOM", place: 0, tokens: ["Tom"], suggestions: [] },
      { word: "dog.", place: 1, tokens: ["dog", "."], suggestions: [] },
    ]);
  });
  test("are marked where they are unknown, and have words that are spelled like them", () => {
    expect(words.readAs("Tom dogs <unk>")).toEqual([{ word: "dogs", place: 1, tokens: [UNKNOWN], suggestions: ["dog"] }]);
    expect(words.labels("Tom dogs </s> <unk>")).toEqual(["Tom", "dogs (<unk>)", "</s> (<unk>)", "<unk>"]);
    expect(characters.readAs("Ab a")).toEqual([{ word: "Ab", place: 0, tokens: ["a", UNKNOWN], suggestions: [] }]);
  });
  test("are split in a script without spaces, into the fewest known ones", () => {
    const chinese = new Coder({ kind: "word", lowercase: false, match_known_forms: true, tokens: [...SPECIALS, "懒", "女孩", "女", "。"] });
    expect(chinese.pieces("懒女孩。")).toEqual(["懒", "女孩", "。"]);
    expect(chinese.pieces("懒猫")).toEqual(["懒猫"]);
  });
});

test("characters keep spaces and their own mark", () => {
  expect(characters.pieces("A ▁汤")).toEqual(["a", "▁", "▁▁", "汤"]);
  expect(characters.decode(characters.encode(characters.pieces("a ▁汤")))).toBe("a ▁汤");
});
