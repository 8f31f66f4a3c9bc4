/** Models step by step: what stands in the same column, and where their weights differ. */

import { expect, test } from "vitest";
import type { Decoded } from "../src/api.ts";
import { columnsOf, differencesOf } from "../src/comparison.ts";

const ALL = { layer: null, head: 0 };
const SOURCE = ["Tom", "runs", "</s>"];

/** A translation with these tokens, of probability 1/2 each, and rows of weights. */
const decoded = (tokens: string, rows: (number[] | null)[], source = SOURCE): Decoded => ({
  source, read_as: [], text: tokens, log_probability: 0,
  steps: tokens.split(" ").map((token, i) => ({
    token, log_probability: Math.log(0.5), weights: rows[i]!, likely: [],
    layers: rows[i] ? [{ weights: [rows[i]!], scores: null, contributions: [rows[i]!] }] : [],
  })),
});

test("tokens that are equal share a column, with the probability that each model gives them", () => {
  const columns = columnsOf([decoded("汤姆 跑 </s>", [null, null, null]), decoded("汤姆 </s>", [null, null])]);
  expect(columns.map((column) => column.map((cell) => cell?.token ?? null))).toEqual([["汤姆", "汤姆"], ["跑", null], ["</s>", "</s>"]]);
  expect(columns[2]!.map((cell) => cell!.step)).toEqual([2, 1]);
  expect(columns[0]![1]!.probability).toBeCloseTo(0.5);
});

test("weights are subtracted in the steps that both models have", () => {
  const first = decoded("汤姆 跑 </s>", [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]);
  const second = decoded("汤姆 </s>", [[0.5, 0.5, 0], [0, 0, 1]]);
  expect(differencesOf(first, second, [ALL, ALL])).toEqual([
    { token: "汤姆", step: 0, values: [0.5, -0.5, 0] },
    { token: "</s>", step: 2, values: [0, 0.5, -0.5] },
  ]);
  const other = decoded("杰瑞 </s>", [[0, 1, 0], [0, 0, 1]]);
  expect(differencesOf(second, other, [ALL, ALL])![0]!.token).toBe("汤姆 / 杰瑞");
});

test("models that read other tokens, or have no weights, are not subtracted", () => {
  const first = decoded("汤姆 </s>", [[1, 0, 0], [0, 0, 1]]);
  expect(differencesOf(first, decoded("汤姆 </s>", [[1, 0], [0, 1]], ["Tom", "</s>"]), [ALL, ALL])).toBeNull();
  expect(differencesOf(first, decoded("汤姆 </s>", [null, null]), [ALL, ALL])).toBeNull();
});
