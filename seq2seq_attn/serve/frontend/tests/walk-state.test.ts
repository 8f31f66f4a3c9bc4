/** The lesson's state: numbers of a real step, and links that hold them. */

import { describe, expect, test } from "vitest";
import { Link } from "../src/link.ts";
import { NORMALIZERS } from "../src/walk-math.ts";
import { hasPlane, parseWalk, walkDefaults, walkOf, wordsOf, writeWalk } from "../src/walk-state.ts";

const scores = [2, -1, 0.5];
const step = {
  model: "attention", token: "追逐", link: "translate?source=Tom+chases&step=1@attention", words: ["Tom", "chases", "</s>"],
  scores, weights: NORMALIZERS["softmax"]!.weights(scores, 1),
};
const plane = { points: [[1, 2], [-3.123456789, 0], [0, 0.5]], share: 0.7 };

test("a link holds the numbers of a step, with and without a plane and moved scores", () => {
  for (const walk of [walkOf(step, plane), walkOf(step, null), { ...walkOf(step, plane), moved: [0, 1, 2], normalizer: "sigmoid" }]) {
    expect(parseWalk(new Link(writeWalk(walk)))).toEqual(walk);
  }
});

test("the normalizer is one that gives the step's weights, and softmax if none does", () => {
  for (const { weights } of Object.values(NORMALIZERS)) {
    const walk = walkOf({ ...step, weights: weights(scores, 1) }, null);
    expect(NORMALIZERS[walk.normalizer]!.weights(scores, 1)).toEqual(weights(scores, 1));
  }
  expect(walkOf({ ...step, weights: [0.2, 0.3, 0.5] }, null).normalizer).toBe("softmax");
});

test("tokens that the scores exclude are left out of words, scores and plane", () => {
  const walk = walkOf({ ...step, scores: [2, null, 0.5], weights: [0.8176, 0, 0.1824] }, plane);
  expect(wordsOf(walk)).toEqual(["Tom", "</s>"]);
  expect(walk.given!.scores).toEqual([2, 0.5]);
  expect(walk.keys).toEqual([[1, 2], [0, 0.5]]);
  expect(walk.normalizer).toBe("softmax");
});

test("a plane that shows little of the variance is not drawn", () => {
  expect(hasPlane(walkDefaults())).toBe(true);
  expect(hasPlane(walkOf(step, plane))).toBe(true);
  expect(hasPlane(walkOf(step, { ...plane, share: 0.2 }))).toBe(false);
  expect(hasPlane(walkOf(step, null))).toBe(false);
});

describe("a malformed step is the example, and the page says so", () => {
  const whole = JSON.parse(writeWalk(walkOf(step, plane)).get("given")!) as Record<string, unknown>;
  test.each([
    ["no JSON", "{"], ["null", "null"], ["a number", "3"], ["a list", "[]"],
    ["no words", JSON.stringify({ ...whole, words: [] })],
    ["words that are no text", JSON.stringify({ ...whole, words: [1, 2, 3] })],
    ["too few scores", JSON.stringify({ ...whole, scores: [1] })],
    ["scores that are no numbers", JSON.stringify({ ...whole, scores: [1, null, 2] })],
    ["too few points", JSON.stringify({ ...whole, keys: [[1, 2]] })],
    ["points of three numbers", JSON.stringify({ ...whole, keys: [[1, 2, 3], [1, 2, 3], [1, 2, 3]] })],
    ["no keys", JSON.stringify({ ...whole, keys: null })],
    ["no token", JSON.stringify({ ...whole, token: undefined })],
  ])("%s", (_, given) => {
    const link = new Link(new URLSearchParams({ given }));
    expect(parseWalk(link)).toEqual(walkDefaults());
    expect(link.finish()).toEqual([expect.stringContaining("given=")]);
  });
});
