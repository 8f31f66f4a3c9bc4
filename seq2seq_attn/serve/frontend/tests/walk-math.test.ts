/** Scorers and normalizers of the lesson, by numbers worked by hand. */

import { describe, expect, test } from "vitest";
import { context, isMean, NORMALIZERS, partialSums, SCORERS, type Vector } from "../src/walk-math.ts";
import { initialParameters } from "../src/walk-state.ts";

const score = (name: string, parameters: Vector[] = initialParameters(name)): number[] => SCORERS[name]!.score([1, 2], [[3, 4], [0, -1]], parameters);
const weights = (name: string, scores: Vector, temperature = 1): number[] => NORMALIZERS[name]!.weights(scores, temperature);

describe("scores of the query (1, 2) and the keys (3, 4) and (0, -1)", () => {
  const worked: [string, Vector[] | undefined, number[]][] = [
    ["dot", undefined, [11, -2]],
    ["scaled_dot", undefined, [11 / Math.SQRT2, -Math.SQRT2]],
    ["general", [[0, 1, 1, 0]], [10, -1]], // W swaps the key
    ["multiplicative", [[2, 0, 0, 1], [0, 1, 1, 0]], [14, -2]], // (2, 2) · (4, 3), (2, 2) · (-1, 0)
    ["biaffine", [[1, 0, 0, 1], [1, 1], [0, 1], [5]], [23, 5]], // q·k + 3 + k₂ + 5
    ["cosine", [[0.5]], [(2 * 11) / (Math.sqrt(5) * 5), (2 * -2) / Math.sqrt(5)]],
    ["negative_squared_distance", [[2]], [-4, -5]],
    ["additive", [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0], [1, 10]], Array(2).fill(Math.tanh(1) + 10 * Math.tanh(2))],
    ["concat", [[0, 0, 1, 0, 0, 0, 0, 1], [1, 1]], [Math.tanh(3) + Math.tanh(4), Math.tanh(-1)]],
    ["normalized_additive", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 0], [3, 4], [10], [1]], [6 * Math.tanh(3) + 8 * Math.tanh(4) + 1, 8 * Math.tanh(-1) + 1]],
    ["mlp", [[0, 0, 0, 0], [1, 0, 0, 1], [0, 0], [0, 1, 1, 0], [0, 0], [1, 0]], [Math.tanh(Math.tanh(4)), Math.tanh(Math.tanh(-1))]],
    ["location", [[1, 0, 0, 1, 1, 1]], [1, 2]], // by position alone
  ];
  test.each(worked)("%s", (name, parameters, expected) => score(name, parameters).forEach((each, j) => expect(each).toBeCloseTo(expected[j]!, 10)));

  test("are worked out above for all scorers, which begin with parameters that fit", () => {
    expect(Object.keys(SCORERS)).toEqual(worked.map(([name]) => name));
    for (const name of Object.keys(SCORERS)) expect(score(name).every(Number.isFinite)).toBe(true);
  });
  test("of a zero vector have a cosine of 0", () => expect(SCORERS["cosine"]!.score([0, 0], [[1, 1]], [[1]])).toEqual([0]));
});

describe("normalizers", () => {
  test("softmax halves what is ln 2 less, and follows its temperature", () => {
    const [a, b] = weights("softmax", [1000 + Math.LN2, 1000]);
    expect(a! / b!).toBeCloseTo(2);
    const [hot, cold] = weights("softmax", [2 * Math.LN2, 0], 2);
    expect(hot! / cold!).toBeCloseTo(2);
  });
  test("sparsemax projects onto the simplex", () => {
    expect(weights("sparsemax", [1, 0.5, -1])).toEqual([0.75, 0.25, 0]);
    expect(weights("sparsemax", [3, 0, 0])).toEqual([1, 0, 0]);
  });
  test("entmax15 solves Σ max(e / 2 − τ, 0)² = 1", () => {
    expect(weights("entmax15", [0, 0]).every((each) => Math.abs(each - 0.5) < 1e-12)).toBe(true);
    const [a, b] = weights("entmax15", [1, 0]); // (1/2 − τ)² + τ² = 1 with τ = (1 − √7) / 4
    expect(a).toBeCloseTo(((1 + Math.sqrt(7)) / 4) ** 2);
    expect(b).toBeCloseTo(((1 - Math.sqrt(7)) / 4) ** 2);
    expect(weights("entmax15", [9, 0])).toEqual([1, 0]);
  });
  test("sigmoid weighs each on its own, and hard takes the first of the highest", () => {
    expect(weights("sigmoid", [0, Math.log(3)])).toEqual([0.5, expect.closeTo(0.75)]);
    expect(weights("hard", [1, 3, 3])).toEqual([0, 1, 0]);
  });
  test.each(["softmax", "sparsemax", "entmax15", "hard"])("%s sums to 1", (name) => {
    for (const scores of [[0.3], [-5, 2, 1.9, 1.8], [0, 0, 0, 0, 0]]) {
      expect(weights(name, scores).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 10);
    }
  });
});

test("a context is the weighted sum of values", () => expect(context([0.25, 0.75], [[4, 0], [0, 8]])).toEqual([1, 6]));

test("arrows put head to tail begin at 0 and end at C", () => {
  const [weights, values] = [[0.25, 0.75], [[4, 0], [0, 8]]];
  expect(partialSums(weights, values)).toEqual([[0, 0], [1, 0], [1, 6]]);
  expect(partialSums(weights, values).at(-1)).toEqual(context(weights, values));
});

test("C is a mean under softmax, and not under sigmoid", () => {
  expect(isMean(weights("softmax", [2, 1, -1]))).toBe(true);
  expect(isMean(weights("sigmoid", [2, 1, -1]))).toBe(false);
});
