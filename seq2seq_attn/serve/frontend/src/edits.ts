/** How a user's actions change an edit: a row of weights, a context, a temperature, a normalizer, another word, source tokens. */

import type { Intervention } from "./api.ts";
import { sum } from "./numbers.ts";
import type { View } from "./reading.ts";
import type { Edit } from "./state.ts";

type Replacement = Omit<Intervention, "step" | "layer" | "head">;

/** What an intervention changes: a temperature, a normalizer and a replaced context hold together. */
const subject = ({ replace }: Intervention): string =>
  replace === "temperature" || replace === "normalizer" ? replace : "context";

/** Whether one takes the place of the other. */
const samePlace = (a: Intervention, b: Intervention): boolean =>
  a.step === b.step && a.layer === b.layer && a.head === b.head && subject(a) === subject(b);

/** Where an intervention applies: at a step, in the chosen layer and head or in all. */
export function placed(view: View, step: number | null, replacement: Replacement): Intervention {
  const isWhole = view.layer === null || replacement.replace === "sentence";
  return { ...replacement, step, layer: view.layer, head: isWhole ? null : view.head };
}

/**
 * The edit with this intervention in place of another one there. The tokens before its step are kept: with a beam or
 * samples, the intervention could otherwise change them, too.
 */
export function intervened(edit: Edit, tokens: readonly string[], added: Intervention): Edit {
  const others = edit.interventions.filter((each) => !samePlace(each, added));
  const prefix = added.step === null ? edit.prefix : tokens.slice(0, added.step);
  return { ...edit, prefix, interventions: [...others, added] };
}

/** What replaces the temperature or the normalizer at every step, in the chosen layer and head or in all. */
function everywhere(edit: Edit, view: View, replace: "temperature" | "normalizer"): Intervention | undefined {
  const place = placed(view, null, { replace });
  return edit.interventions.find((each) => samePlace(each, place));
}

/** The edit with this replacement there, or with none. */
function withEverywhere(edit: Edit, view: View, replacement: Replacement, isNone: boolean): Edit {
  const added = placed(view, null, replacement);
  const others = edit.interventions.filter((each) => !samePlace(each, added));
  return { ...edit, interventions: isNone ? others : [...others, added] };
}

/** The temperature of the normalizer at every step, in the chosen layer and head or in all. */
export const temperatureOf = (edit: Edit, view: View): number =>
  everywhere(edit, view, "temperature")?.temperature ?? 1;

/** The edit with this temperature there; 1 is that of the model. */
export const atTemperature = (edit: Edit, view: View, temperature: number): Edit =>
  withEverywhere(edit, view, { replace: "temperature", temperature }, temperature === 1);

/** The name of the normalizer there; empty: the model's own. */
export function normalizerOf(edit: Edit, view: View): string {
  const given = everywhere(edit, view, "normalizer")?.normalizer;
  return typeof given === "string" ? given : (given?.name ?? "");
}

/** The edit with this normalizer there; empty: with the model's own. */
export const withNormalizer = (edit: Edit, view: View, normalizer: string): Edit =>
  withEverywhere(edit, view, { replace: "normalizer", normalizer }, normalizer === "");

/** The edit with these source tokens, or with those of the tokenizer; rows of weights belonged to the tokens before. */
export function ofTokens({ source: _, ...edit }: Edit, tokens: string[] | null): Edit {
  const interventions = edit.interventions.filter((each) => each.replace !== "weights");
  return { ...edit, interventions, ...(tokens && { source: tokens }) };
}

/**
 * What is left of an edit with another sentence: the temperature, the normalizer and the typed beginning are settings of
 * the model. Weights, contexts and chosen tokens belonged to the sentence.
 */
export function ofSettings({ prefix, interventions }: Edit): Edit {
  const isSetting = (each: Intervention): boolean => each.step === null && subject(each) !== "context";
  return { prefix: typeof prefix === "string" ? prefix : [], interventions: interventions.filter(isSetting) };
}

/** The edit that begins with this prefix; what was changed at later steps belonged to another translation. */
export function goingOn(edit: Edit, prefix: string[]): Edit {
  const isBefore = (each: Intervention): boolean => each.step === null || each.step < prefix.length;
  return { ...edit, prefix, interventions: edit.interventions.filter(isBefore) };
}

/** The edit without the interventions at a step. The prefix goes with the last of them. */
export function withoutStep(edit: Edit, step: number): Edit {
  const interventions = edit.interventions.filter((each) => each.step !== step);
  return { ...edit, prefix: interventions.length > 0 ? edit.prefix : [], interventions };
}

const rounded = (value: number): number => Math.round(value * 1e4) / 1e4; // a permalink holds four digits

/**
 * A row of weights in which some tokens have new weights. If the row is to sum to 1, the others share the rest in
 * their old proportions; new weights that exceed 1 together are scaled down.
 */
export function withWeights(row: readonly number[], given: ReadonlyMap<number, number>, sumsToOne: boolean): number[] {
  if (!sumsToOne) return row.map((weight, j) => rounded(given.get(j) ?? weight));
  const total = sum([...given.values()]);
  const others = sum(row.filter((_, j) => !given.has(j)));
  const untouched = row.length - given.size;
  const scale = total > 1 || untouched === 0 ? 1 / Math.max(total, 1e-9) : 1;
  const rest = Math.max(0, 1 - total * scale);
  return row.map((weight, j) => {
    const own = given.get(j);
    if (own !== undefined) return rounded(own * scale);
    return rounded(others > 0 ? (weight / others) * rest : rest / untouched);
  });
}

/** A row of weights in which one token has given its weight to another one. */
export const movedWeight = (row: readonly number[], from: number, to: number): number[] =>
  row.map((weight, j) => rounded(from === to ? weight : j === to ? weight + row[from]! : j === from ? 0 : weight));
