/** Which weights are shown of a step: those of a head, their mean, or those that a user gave. */

import { describe, expect, test } from "vitest";
import type { Intervention, LayerReading, Step } from "../src/api.ts";
import { editedSteps, givenRow, reading, viewOf } from "../src/reading.ts";
import { NO_EDIT } from "../src/state.ts";

const layer = (...weights: number[][]): LayerReading => ({ weights, scores: weights.map((row) => row.map(Math.log)), contributions: weights.map((row) => row.map((each) => 10 * each)) });
const step = (layers: LayerReading[], weights: number[] | null): Step => ({ token: "a", log_probability: -1, weights, layers, likely: [] });
const TWO_LAYERS = step([layer([0.5, 0.5]), layer([1, 0], [0.2, 0.8])], [0.6, 0.4]);
const given = (more: Partial<Intervention>): Intervention => ({ replace: "weights", step: 1, layer: null, head: null, weights: [0, 1], ...more });
const shown = (...interventions: Intervention[]): number[] | null => givenRow({ ...NO_EDIT, interventions }, 1, { layer: null, head: 0 }, 2);

describe("a step", () => {
  test("is read by the chosen head of the chosen layer", () => {
    expect(reading(TWO_LAYERS, { layer: 1, head: 1 })).toMatchObject({ weights: [0.2, 0.8], contributions: [2, 8] });
    expect(reading(TWO_LAYERS, { layer: 0, head: 0 })!.weights).toEqual([0.5, 0.5]);
  });
  test("has the mean of all heads otherwise, which has no scores", () => {
    const mean = reading(TWO_LAYERS, { layer: null, head: 0 })!;
    expect(mean.weights).toEqual([0.6, 0.4]);
    expect(mean.scores).toBeNull();
    expect(mean.contributions[0]).toBeCloseTo(17 / 3);
    expect(mean.contributions[1]).toBeCloseTo(13 / 3);
  });
  test("of a single head has its scores", () => expect(reading(step([layer([1, 0])], [1, 0]), { layer: null, head: 0 })!.scores).not.toBeNull());
  test("without weights has no reading", () => expect(reading(step([], null), { layer: null, head: 0 })).toBeNull());
  test("of a model without the chosen head is the mean", () => {
    expect(viewOf({ layer: 1, head: 3 }, { heads: [2, 2] } as never)).toEqual({ layer: null, head: 0 });
    expect(viewOf({ layer: 1, head: 1 }, { heads: [2, 2] } as never)).toEqual({ layer: 1, head: 1 });
  });
});

describe("given weights", () => {
  test("are shown before the server answers", () => expect(shown(given({}))).toEqual([0, 1]));
  test("are those of the last intervention there", () => expect(shown(given({}), given({ weights: [1, 0] }))).toEqual([1, 0]));
  test("stay under a temperature", () => expect(shown(given({}), given({ replace: "temperature" }))).toEqual([0, 1]));
  test.each<[string, Partial<Intervention>]>([
    ["another step", { step: 2 }],
    ["one head of the mean", { layer: 0, head: 0 }],
    ["what a later mean replaces", { replace: "mean" }],
    ["another sentence", { replace: "sentence" }],
    ["other source tokens", { weights: [0, 1, 0] }],
  ])("are not those of %s", (_, change) => expect(shown(given(change))).toBeNull());
});

test("an intervention without a step edits all of them", () => {
  expect([...editedSteps({ ...NO_EDIT, interventions: [given({})] }, 3)]).toEqual([1]);
  expect([...editedSteps({ ...NO_EDIT, interventions: [given({ step: null })] }, 3)]).toEqual([0, 1, 2]);
});
