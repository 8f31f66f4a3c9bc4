/** What the story computes itself: who plays which part, how much of a reference is found again, and a worked example. */

import { aligned, type Cell } from "../align.ts";
import type { ModelInfo } from "../api.ts";
import { sum } from "../numbers.ts";
import { wordsIn } from "../sentences.ts";
import type { Texts } from "./en.ts";
import { EN } from "./en.ts";
import { ZH } from "./zh.ts";
import { NORMALIZERS, SCORERS, type Vector } from "../walk-math.ts";

export const LANGUAGES = { en: EN, zh: ZH };
export type Language = keyof typeof LANGUAGES;

export const isLanguage = (text: string | null): text is Language => text !== null && Object.hasOwn(LANGUAGES, text);

/** The first of a reader's languages that the story is told in. */
export function languageOf(wanted: readonly string[]): Language {
  return wanted.map((each) => each.slice(0, 2).toLowerCase()).find(isLanguage) ?? "en";
}

/** A text with its names in braces filled in. */
export const filled = (text: Texts[keyof Texts], values: Readonly<Record<string, string | number>>): string =>
  text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));

const headsOf = (model: ModelInfo): number => sum(model.heads);

/** The models that play a part; null where none can. */
export interface Cast {
  vector: ModelInfo | null; // without attention
  attention: ModelInfo | null; // with scores, of one head if there is one
  heads: ModelInfo | null; // with several heads
  transformer: ModelInfo | null; // with self-attention
}

export function castOf(models: readonly ModelInfo[]): Cast {
  const attending = models.filter((each) => headsOf(each) > 0);
  return {
    vector: models.find((each) => headsOf(each) === 0) ?? null,
    attention: attending.find((each) => headsOf(each) === 1) ?? attending[0] ?? null,
    heads: attending.find((each) => headsOf(each) > 1) ?? null,
    transformer: models.find((each) => each.kind === "transformer") ?? null,
  };
}

/** A translation, in columns below its reference. */
export interface Compared {
  reference: (Cell | null)[];
  own: (Cell | null)[];
  same: number; // words of the reference that are found again
}

export function compared(reference: string, text: string): Compared {
  const [first, own] = aligned([wordsIn(reference), wordsIn(text)]);
  return { reference: first!, own: own!, same: own!.filter((cell) => cell !== null && !cell.differs).length };
}

/** Self-attention without parameters: the weights of each vector over all of them; with a head, by one of its numbers alone. */
export function selfWeights(vectors: readonly Vector[], head: number | null, temperature = 1): number[][] {
  const seen = head === null ? vectors : vectors.map((each) => [each[head]!]);
  return seen.map((query) => NORMALIZERS["softmax"]!.weights(SCORERS["scaled_dot"]!.score(query, seen, []), temperature));
}

/** The mean of the maps of several heads. */
export const meanOf = (heads: readonly (readonly Vector[])[]): number[][] =>
  heads[0]!.map((row, i) => row.map((_, j) => sum(heads.map((head) => head[i]![j]!)) / heads.length));
