/** The state of the viewer, and its text after the # of the address. */

import type { Corpus } from "./corpus.ts";

/** What sentences are filtered by; as typed, so that "" is no limit. */
export interface Filters {
  search: string;
  shortest: string;
  longest: string;
  scored: string; // the arm whose scores filter and order
  lowest: string;
  highest: string;
  order: string;
}

export interface State {
  place: number; // of the sentence pair
  step: number;
  pieces: boolean; // whether rows and columns are pieces, not words
  arms: readonly string[]; // side by side
  filters: Filters;
}

export function noFilters({ arms, best }: Corpus): Filters {
  const scored = arms.length > 0 ? best : "";
  return { search: "", shortest: "", longest: "", scored, lowest: "", highest: "", order: "line" };
}

export const SECTION = "#attention?";

/** "#attention?line=4&step=1"; what is at its default is left out. */
export function writeAddress({ place, step, pieces, arms, filters }: State, corpus: Corpus): string {
  const query = new URLSearchParams({ line: String(corpus.pairs[place]!.line), step: String(step + 1) });
  if (pieces) query.set("pieces", "1");
  arms.forEach((arm, number) => query.set(`arm${number + 1}`, arm));
  const initial = noFilters(corpus);
  for (const name of Object.keys(initial) as (keyof Filters)[]) {
    if (filters[name] !== initial[name]) query.set(name, filters[name]);
  }
  return `${SECTION}${query}`;
}

/** Without a line in the address, the first example; the arms may be unknown. */
export function readAddress(hash: string, corpus: Corpus): State {
  const query = new URLSearchParams(hash.startsWith(SECTION) ? hash.slice(SECTION.length) : "");
  const line = Number(query.get("line") ?? corpus.firstLine);
  const filters = noFilters(corpus);
  for (const name of Object.keys(filters) as (keyof Filters)[]) filters[name] = query.get(name) ?? filters[name];
  return {
    place: Math.max(0, corpus.pairs.findIndex((pair) => pair.line === line)),
    step: Math.max(0, Number(query.get("step") ?? 1) - 1) || 0,
    pieces: query.get("pieces") === "1",
    arms: ["arm1", "arm2"].flatMap((name) => query.get(name) ?? []),
    filters,
  };
}
