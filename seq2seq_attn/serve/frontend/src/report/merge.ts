/** A translation of a view by words or by pieces: weights are summed over source pieces, and averaged over target pieces. */

import { sum, upTo } from "../numbers.ts";
import type { Pair, Path, View } from "./corpus.ts";

export interface Row {
  token: string;
  steps: readonly number[]; // of the view
  p: number | null;
  weights: number[] | null;
  scores: number[] | null;
  shares: number[] | null; // of the context
}

export interface Shown {
  source: readonly string[];
  rows: readonly Row[];
  links: readonly (readonly [number, number])[]; // gold: column, row
}

const WEIGHTS = 2, SCORES = 3, SHARES = 4; // in the data of a step

/** How many words there are, given the word of each token. */
const count = (wordOf: readonly number[]): number => Math.max(-1, ...wordOf) + 1;

/** Sums the values of the tokens of each word. */
function byWord(values: readonly number[], wordOf: readonly number[]): number[] {
  const totals = Array<number>(count(wordOf)).fill(0);
  values.forEach((value, token) => (totals[wordOf[token]!]! += value));
  return totals;
}

function joined(tokens: readonly string[], wordOf: readonly number[]): string[] {
  const texts = Array<string>(count(wordOf)).fill("");
  tokens.forEach((token, place) => (texts[wordOf[place]!]! += token.replace(/^▁/, "")));
  return texts;
}

const mean = (rows: readonly number[][]): number[] => rows[0]!.map((_, column) => sum(rows.map((row) => row[column]!)) / rows.length);

export const hasPieces = ({ source, sourceWords, paths }: View): boolean =>
  source.length > count(sourceWords) || paths.some((path) => path.steps.length > count(path.words));

/** What a panel shows of a translation; gold links belong to the reference alone. */
export function merged(view: View, path: Path | undefined, pieces: boolean, gold: Pair["gold"]): Shown {
  if (!path) return { source: [], rows: [], links: [] };
  const sourceOf = pieces ? upTo(view.source.length) : view.sourceWords;
  const targetOf = pieces ? upTo(path.steps.length) : path.words;
  const steps = path.steps.map((index) => view.steps[index]!);
  const labels = pieces ? steps.map(([token]) => token) : joined(steps.map(([token]) => token), targetOf);
  const row = (word: number): Row => {
    const places = upTo(steps.length).filter((place) => targetOf[place] === word);
    const own = places.map((place) => steps[place]!);
    const merge = (field: typeof WEIGHTS | typeof SHARES): number[] | null => {
      const known = own.flatMap((step) => (step[field] ? [byWord(step[field], sourceOf)] : []));
      return known.length > 0 ? mean(known) : null;
    };
    const logs = own.map(([, logProbability]) => logProbability);
    const scores = own.length === 1 ? own[0]![SCORES] : null;
    return {
      token: labels[word]!,
      steps: places.map((place) => path.steps[place]!),
      p: logs.some((log) => log === null) ? null : Math.exp(sum(logs.map((log) => log ?? 0))),
      weights: merge(WEIGHTS),
      scores: scores?.length === count(sourceOf) ? scores : null, // the scores of pieces cannot be summed
      shares: merge(SHARES),
    };
  };
  const wordLinks = new Set(path === view.paths[0] ? gold.map(String) : []);
  const cells = upTo(view.source.length).flatMap((column) => upTo(steps.length).map((place) => [column, place] as const));
  const links = cells
    .filter(([column, place]) => wordLinks.has(`${view.sourceWords[column]},${path.words[place]}`))
    .map(([column, place]) => [sourceOf[column]!, targetOf[place]!] as const);
  return {
    source: pieces ? view.source : joined(view.source, sourceOf),
    rows: upTo(count(targetOf)).map(row),
    links: [...new Map(links.map((link) => [String(link), link])).values()],
  };
}
