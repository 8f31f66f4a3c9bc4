/** What is said of one vector: how far it moves when a word is exchanged. */

import { END } from "./format.ts";
import { sum } from "./numbers.ts";

interface VectorFacts {
  mean: number;
  least: { token: string; change: number };
  most: { token: string; change: number };
}

/** The mean change, and the words whose exchange moves the vector least and most; null without words. */
export function factsOf(source: readonly string[], changes: readonly number[]): VectorFacts | null {
  const words = changes.map((change, place) => ({ token: source[place]!, change })).filter(({ token }) => token !== END && /[\p{L}\p{N}]/u.test(token));
  if (words.length === 0) return null;
  const sorted = [...words].sort((a, b) => a.change - b.change);
  return { mean: sum(words.map(({ change }) => change)) / words.length, least: sorted[0]!, most: sorted.at(-1)! };
}
