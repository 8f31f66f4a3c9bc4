/** The state of the lesson: a query, four keys, a scorer with its parameters, a normalizer. */

import type { Link } from "./link.ts";
import { NORMALIZERS, SCORERS, type Vector } from "./walk-math.ts";

export interface WalkState {
  scorer: string;
  normalizer: string;
  temperature: number;
  query: Vector;
  keys: readonly Vector[];
  parameters: readonly Vector[]; // of the scorer
}

export const WORDS = ["Tom", "chases", "Jerry", "."];

export const initialParameters = (scorer: string): Vector[] => SCORERS[scorer]!.parameters.map(({ initial }) => initial);

export function walkDefaults(): WalkState {
  return {
    scorer: "dot",
    normalizer: "softmax",
    temperature: 1,
    query: [1, 1.5],
    keys: [[-1, 1.5], [2, 1], [1, -1.5], [-1.5, -1]],
    parameters: [],
  };
}

const written = (vectors: readonly Vector[]): string => vectors.map((vector) => vector.join(",")).join(";");

/** The vectors of a text such as "1,2;3,4"; undefined unless their sizes are those of `like`. */
function vectors(text: string, like: readonly Vector[]): Vector[] | undefined {
  const found = text.split(";").map((part) => part.split(",").map(Number));
  const fits = found.length === like.length && found.every((each, i) => each.length === like[i]!.length && each.every(Number.isFinite));
  return fits ? found : undefined;
}

export function writeWalk(walk: WalkState): URLSearchParams {
  const initial = walkDefaults();
  const query = new URLSearchParams();
  for (const name of ["scorer", "normalizer", "temperature"] as const) {
    if (walk[name] !== initial[name]) query.set(name, String(walk[name]));
  }
  if (written([walk.query]) !== written([initial.query])) query.set("query", written([walk.query]));
  if (written(walk.keys) !== written(initial.keys)) query.set("keys", written(walk.keys));
  const own = written(walk.parameters);
  if (own !== written(initialParameters(walk.scorer))) query.set("parameters", own);
  return query;
}

export function parseWalk(link: Link): WalkState {
  const initial = walkDefaults();
  const known = (name: "scorer" | "normalizer", all: object): string =>
    link.read(name, initial[name], (text) => (Object.hasOwn(all, text) ? text : undefined));
  const scorer = known("scorer", SCORERS);
  const own = initialParameters(scorer);
  return {
    scorer,
    normalizer: known("normalizer", NORMALIZERS),
    temperature: link.number("temperature", 1e-3, 1e3, initial.temperature),
    query: link.read("query", initial.query, (text) => vectors(text, [initial.query])?.[0]),
    keys: link.read("keys", initial.keys, (text) => vectors(text, initial.keys)),
    parameters: link.read("parameters", own, (text) => vectors(text, own)),
  };
}
