/** The attention of a report by words and by pieces, and numbers as text. */

import { describe, expect, test } from "vitest";
import { few, fixed, share, shortNames } from "../src/format.ts";
import { hasPieces, merged } from "../src/report/merge.ts";
import type { View } from "../src/report/corpus.ts";
import { shades } from "../src/shades.ts";
import { ranges, span } from "../src/source-picture.ts";

const VIEW: View = {
  arm: "attention",
  source: ["▁un", "seen", "▁dog"],
  sourceWords: [0, 0, 1],
  steps: [
    ["▁ein", Math.log(0.5), [0.1, 0.2, 0.7], [1, 2, 3], [0.5, 0.25, 0.25]],
    ["es", Math.log(0.4), [0.3, 0.4, 0.3], [1, 2, 3], null],
    ["▁Hund", null, null, null, null],
  ],
  paths: [{ name: "reference", steps: [0, 1, 2], words: [0, 0, 1], score: null }, { name: "translation", steps: [0, 2], words: [0, 1], score: -1 }],
  tree: [],
  grid: 1,
};

describe("a translation by words", () => {
  const shown = merged(VIEW, VIEW.paths[0], false, [[0, 0]]);

  test("sums weights over source pieces and averages them over target pieces", () => {
    expect(shown.source).toEqual(["unseen", "dog"]);
    expect(shown.rows.map(({ token }) => token)).toEqual(["eines", "Hund"]);
    const [summed, other] = shown.rows[0]!.weights!;
    expect(summed).toBeCloseTo((0.3 + 0.7) / 2);
    expect(other).toBeCloseTo((0.7 + 0.3) / 2);
  });
  test("has the probability of all its pieces, and no scores of several", () => {
    expect(shown.rows[0]!.p).toBeCloseTo(0.2);
    expect(shown.rows[0]!.scores).toBeNull();
    expect(shown.rows[1]).toMatchObject({ p: null, weights: null, shares: null });
  });
  test("links words, of the reference alone", () => {
    expect(shown.links).toEqual([[0, 0]]);
    expect(merged(VIEW, VIEW.paths[1], false, [[0, 0]]).links).toEqual([]);
  });
});

test("by pieces, a link of words is one of each pair of their pieces", () => {
  const shown = merged(VIEW, VIEW.paths[0], true, [[0, 0]]);
  expect(shown.rows[0]).toMatchObject({ token: "▁ein", weights: [0.1, 0.2, 0.7], scores: [1, 2, 3] });
  expect(shown.links).toEqual([[0, 0], [0, 1], [1, 0], [1, 1]]);
  expect(hasPieces(VIEW)).toBe(true);
});

test("numbers say no more and no less than is known", () => {
  expect([share(0), share(0.0001), share(0.25)]).toEqual(["0.000", "< .001", "0.250"]);
  expect([fixed(-0.04, 1), fixed(-1.25, 2), fixed(0, 1)]).toEqual(["0.0", "−1.25", "0.0"]);
  expect([few(0), few(12345678), few(-0.00001), few(3.14159), few(123.456)]).toEqual(["0", "1.2e7", "−1.0e−5", "3.142", "123.46"]);
});

test("names lose the last parts that all of them share", () => {
  expect([...shortNames(["x/a/seed-1", "x/b/seed-1"]).values()]).toEqual(["x/a", "x/b"]);
  expect([...shortNames(["a/seed-1"]).values()]).toEqual(["a/seed-1"]);
  expect([...shortNames(["a", "b/a"]).values()]).toEqual(["a", "b/a"]);
});

describe("a source that is not text", () => {
  test("what is played is the shortest part with half of the weight, the first of equals", () => {
    expect(span([0.1, 0.2, 0.4, 0.2, 0.1])).toEqual([1, 3]);
    expect(span([0, 0, 1, 0])).toEqual([2, 3]);
    expect(span([0.25, 0.25, 0.25, 0.25])).toEqual([0, 2]);
    expect(span([0.3, 0, 0, 0.3, 0.4])).toEqual([3, 5]);
    expect(span([2, 1, 1])).toEqual([0, 1]); // weights that need not sum to 1
    expect(span([1])).toEqual([0, 1]);
  });
  test("neighbors of one shade are one rectangle, within a row of the grid", () => {
    expect(shades([0, 1, 1, 0.5], 1)).toEqual([[1, "M1 0h2v1h-2z"], [0.5, "M3 0h1v1h-1z"]]);
    expect(shades([0, 1, 1, 0], 2)).toEqual([[1, "M1 0h1v1h-1zM0 1h1v1h-1z"]]);
  });
  test("gold positions are ranges of neighbors", () => {
    expect(ranges([4, 2, 3, 7])).toEqual([[2, 5], [7, 8]]);
    expect(ranges([])).toEqual([]);
  });
});
