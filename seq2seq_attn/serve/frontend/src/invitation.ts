/** What the page invites to do first: which word is dragged to which. */

import { END } from "./format.ts";
import { largest } from "./numbers.ts";

const isWord = (token: string): boolean => token !== END && /\p{L}/u.test(token) && !/^<.*>$/.test(token);

/** The word that a step reads most, and another one to drag it to, the next of the sentence; null if there are not two. */
export function invitation(source: readonly string[], row: readonly number[]): { from: number; to: number } | null {
  const from = largest(row);
  if (!isWord(source[from] ?? END)) return null;
  const others = source.flatMap((token, place) => (place !== from && isWord(token) && token !== source[from] ? [place] : []));
  const to = others.find((place) => place > from) ?? others.at(-1);
  return to === undefined ? null : { from, to };
}
