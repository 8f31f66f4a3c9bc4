/** What is shown of a step: the chosen layer and head, or the mean of all. */

import type { Decoded, Intervention, ModelInfo, Step } from "./api.ts";
import { asRead } from "./format.ts";
import { sum, upTo } from "./numbers.ts";
import type { Edit, State } from "./state.ts";

export interface Reading {
  weights: number[];
  scores: (number | null)[] | null; // before the normalizer; null for a mean, which has none
  contributions: number[];
}

export type View = Pick<State, "layer" | "head">;

/** What is shown of a model: the chosen layer and head, if it has them. */
export function viewOf({ layer, head }: View, { heads }: ModelInfo): View {
  return layer !== null && head < (heads[layer] ?? 0) ? { layer, head } : { layer: null, head: 0 };
}

/** The reading of a step; null without weights. */
export function reading(step: Step, view: View): Reading | null {
  const heads = step.layers.flatMap(({ weights, scores, contributions }) =>
    weights.map((row, head) => ({
      weights: row,
      scores: scores?.[head] ?? null,
      contributions: contributions[head]!,
    })),
  );
  if (step.weights === null || heads.length === 0) return null;
  if (view.layer !== null) {
    const before = sum(step.layers.slice(0, view.layer).map(({ weights }) => weights.length));
    return heads[before + view.head] ?? null;
  }
  if (heads.length === 1) return heads[0]!;
  const mean = (j: number): number => sum(heads.map(({ contributions }) => contributions[j]!)) / heads.length;
  return { weights: step.weights, scores: null, contributions: step.weights.map((_, j) => mean(j)) };
}

/**
 * The weights given for a step of this view and for all of its `tokens`, if a user set them and no later intervention
 * replaces them; they show at once, before the server answers.
 */
export function givenRow(edit: Edit, step: number, view: View, tokens: number): number[] | null {
  const head = view.layer === null ? null : view.head;
  const meets = (one: number | null, other: number | null): boolean => one === null || other === null || one === other;
  const applies = (each: Intervention): boolean =>
    each.replace !== "temperature" && each.replace !== "normalizer" &&
    meets(each.step, step) && meets(each.layer, view.layer) && meets(each.head, head);
  const applied = edit.interventions.filter(applies);
  const last = applied.at(-1);
  // Another sentence is read whatever the order is.
  if (last?.replace !== "weights" || applied.some((each) => each.replace === "sentence")) return null;
  return last.layer === view.layer && last.head === head && last.weights!.length === tokens ? last.weights! : null;
}

/** The rows of a heat map; a row without weights is null. */
export function rows(decoded: Decoded, edit: Edit, view: View): (number[] | null)[] {
  return decoded.steps.map(
    (step, number) => givenRow(edit, number, view, decoded.source.length) ?? reading(step, view)?.weights ?? null,
  );
}

/** The steps that an edit changes directly. */
export function editedSteps(edit: Edit, count: number): Set<number> {
  const isEverywhere = edit.interventions.some((each) => each.step === null);
  if (isEverywhere) return new Set(upTo(count));
  return new Set(edit.interventions.map((each) => each.step!));
}

/** The unchanged translation, unless it reads other tokens of the sentence, whose weights are of other places. */
export function comparable(base: Decoded | null, current: Decoded): Decoded | null {
  return base?.source.join(" ") === current.source.join(" ") ? base : null;
}

/** The tokens of the source as they are read, without the end of the sentence. */
export const sourceTokens = (decoded: Decoded): string[] => decoded.source.slice(0, -1).map(asRead);

export const tokensOf = (decoded: Decoded): string[] => decoded.steps.map((step) => step.token);
