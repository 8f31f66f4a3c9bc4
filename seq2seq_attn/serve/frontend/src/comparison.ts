/** Translations of one sentence by several models, step by step. */

import { aligned } from "./align.ts";
import type { Decoded } from "./api.ts";
import { reading, tokensOf, type View } from "./reading.ts";

/** What the models have in one column of the aligned translations; null where one has no token. */
export type Column = readonly ({ token: string; step: number; probability: number } | null)[];

export function columnsOf(translations: readonly Decoded[]): Column[] {
  const lines = aligned(translations.map(tokensOf));
  return (lines[0] ?? []).map((_, column) =>
    lines.map((line, model) => {
      const cell = line[column];
      if (!cell) return null;
      return { token: cell.token, step: cell.step, probability: Math.exp(translations[model]!.steps[cell.step]!.log_probability) };
    }),
  );
}

export interface Difference {
  token: string; // or both, where they differ
  step: number; // of the first model
  values: number[]; // by source token
}

/** The weights of the first model minus those of the second, where both have a token; null if they cannot be compared. */
export function differencesOf(first: Decoded, second: Decoded, views: readonly [View, View]): Difference[] | null {
  if (first.source.join(" ") !== second.source.join(" ")) return null;
  const found = columnsOf([first, second]).flatMap(([one, other]) => {
    if (!one || !other) return [];
    const [a, b] = [reading(first.steps[one.step]!, views[0])?.weights, reading(second.steps[other.step]!, views[1])?.weights];
    if (!a || !b) return [];
    const token = one.token === other.token ? one.token : `${one.token} / ${other.token}`;
    return [{ token, step: one.step, values: a.map((weight, j) => weight - b[j]!) }];
  });
  return found.length > 0 ? found : null;
}
