/** What a user's actions make of an edit: weights that are set by hand, and which interventions give way to others. */

import { describe, expect, test } from "vitest";
import type { Intervention } from "../src/api.ts";
import { atTemperature, goingOn, intervened, normalizerOf, ofSettings, ofTokens, placed, temperatureOf, withNormalizer, withoutStep, withWeights } from "../src/edits.ts";
import { NO_EDIT } from "../src/state.ts";

const MEAN = { layer: null, head: 0 };
const SECOND_HEAD = { layer: 0, head: 1 };
const row = (step: number, weights: number[] = [1, 0]): Intervention => placed(MEAN, step, { replace: "weights", weights });
const total = (weights: readonly number[]): number => weights.reduce((sum, each) => sum + each, 0);

describe("a row with new weights", () => {
  test("gives the others the rest in their old proportions", () => {
    expect(withWeights([0.5, 0.3, 0.2], new Map([[0, 0.75]]), true)).toEqual([0.75, 0.15, 0.1]);
  });
  test("gives others without any weight equal parts of the rest", () => {
    expect(withWeights([1, 0, 0], new Map([[0, 0.5]]), true)).toEqual([0.5, 0.25, 0.25]);
  });
  test("scales new weights down that exceed 1 together", () => {
    expect(withWeights([0.2, 0.4, 0.4], new Map([[0, 1], [1, 1]]), true)).toEqual([0.5, 0.5, 0]);
  });
  test("sums to 1 whatever is given", () => {
    for (const given of [0, 0.001, 0.37, 1]) {
      for (const weights of [[0.1, 0.2, 0.7], [0, 0, 1], [1, 0, 0]]) {
        expect(total(withWeights(weights, new Map([[2, given]]), true))).toBeCloseTo(1, 3);
      }
    }
  });
  test("keeps the others if the row need not sum to 1", () => {
    expect(withWeights([0.9, 0.8], new Map([[0, 0.25]]), false)).toEqual([0.25, 0.8]);
  });
});

describe("an intervention", () => {
  test("takes the place of another one at the same step, layer and head", () => {
    const first = intervened(NO_EDIT, ["a", "b"], row(1, [1, 0]));
    expect(intervened(first, ["a", "b"], row(1, [0, 1])).interventions).toEqual([row(1, [0, 1])]);
    const ofHead = placed(SECOND_HEAD, 1, { replace: "weights", weights: [0, 1] });
    expect(intervened(first, ["a", "b"], ofHead).interventions).toHaveLength(2);
  });
  test("keeps the tokens before its step", () => {
    expect(intervened(NO_EDIT, ["a", "b", "c"], row(2)).prefix).toEqual(["a", "b"]);
  });
  test("with another sentence is of all heads", () => {
    expect(placed(SECOND_HEAD, 1, { replace: "sentence", other: "x" })).toMatchObject({ layer: 0, head: null });
  });
  test("at a later step goes when another word is gone on from", () => {
    const edit = { ...NO_EDIT, interventions: [row(0), row(2), placed(MEAN, null, { replace: "temperature", temperature: 2 })] };
    expect(goingOn(edit, ["a", "b"]).interventions.map(({ step }) => step)).toEqual([0, null]);
  });
  test("takes the prefix with it if it was the last", () => {
    const edit = intervened(NO_EDIT, ["a", "b"], row(1));
    expect(withoutStep(edit, 1)).toEqual({ prefix: [], interventions: [] });
    expect(withoutStep(edit, 0)).toEqual(edit);
  });
  test("with weights goes when the source tokens change", () => {
    const edit = atTemperature({ ...NO_EDIT, interventions: [row(0)] }, MEAN, 2);
    const split = ofTokens(edit, ["T", "om"]);
    expect(split.source).toEqual(["T", "om"]);
    expect(split.interventions.map(({ replace }) => replace)).toEqual(["temperature"]);
    expect(ofTokens(split, null)).not.toHaveProperty("source");
  });
});

test("temperature and normalizer are each set once for a head, and unset by the model's own", () => {
  const cold = atTemperature(atTemperature(NO_EDIT, SECOND_HEAD, 3), SECOND_HEAD, 0.5);
  const both = withNormalizer(cold, SECOND_HEAD, "sparsemax");
  expect(both.interventions).toHaveLength(2);
  expect([temperatureOf(both, SECOND_HEAD), normalizerOf(both, SECOND_HEAD)]).toEqual([0.5, "sparsemax"]);
  expect([temperatureOf(both, MEAN), normalizerOf(both, MEAN)]).toEqual([1, ""]);
  expect(withNormalizer(atTemperature(both, SECOND_HEAD, 1), SECOND_HEAD, "").interventions).toEqual([]);
});

test("another sentence keeps the settings of the model, and no edit of the sentence", () => {
  const everywhere = placed(MEAN, null, { replace: "mean" });
  const edit = withNormalizer(atTemperature({ prefix: "the", source: ["a", "b"], interventions: [row(0), everywhere] }, SECOND_HEAD, 2), MEAN, "sparsemax");
  const kept = ofSettings(edit);
  expect(kept.interventions.map(({ replace }) => replace)).toEqual(["temperature", "normalizer"]);
  expect(kept.prefix).toBe("the");
  expect(kept).not.toHaveProperty("source");
  expect(ofSettings({ ...edit, prefix: ["chosen", "tokens"] }).prefix).toEqual([]);
});
