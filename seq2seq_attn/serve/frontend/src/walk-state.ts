/** The state of the lesson: a query, four keys, a scorer with its parameters, a normalizer. */

import { type Link, numberIn } from "./link.ts";
import { normalizerOf, NORMALIZERS, SCORERS, type Vector } from "./walk-math.ts";

/** A step of a model, whose numbers take the place of a scorer's. */
export interface Given {
  model: string;
  token: string; // that it predicted
  link: string; // to the step, without #
  words: readonly string[]; // source tokens
  scores: Vector;
  share: number | null; // of the variance of the values, that the plane of the keys shows; null: there are no values
}

export interface WalkState {
  scorer: string;
  normalizer: string;
  temperature: number;
  query: Vector;
  keys: readonly Vector[];
  parameters: readonly Vector[]; // of the scorer
  given: Given | null;
  moved: Vector | null; // scores by hand in place of the given ones
}

const WORDS = ["Tom", "chases", "Jerry", "."];
const LEAST_SHARE = 1 / 3; // of the variance; a plane that shows less would mislead

export const wordsOf = ({ given }: WalkState): readonly string[] => given?.words ?? WORDS;

/** Whether there are vectors to draw. */
export const hasPlane = ({ given }: WalkState): boolean => given === null || (given.share ?? 0) >= LEAST_SHARE;

export const initialParameters = (scorer: string): Vector[] => SCORERS[scorer]!.parameters.map(({ initial }) => initial);

export function walkDefaults(): WalkState {
  return {
    scorer: "dot",
    normalizer: "softmax",
    temperature: 1,
    query: [1, 1.5],
    keys: [[-1, 1.5], [2, 1], [1, -1.5], [-1.5, -1]],
    parameters: [],
    given: null,
    moved: null,
  };
}

const written = (vectors: readonly Vector[]): string => vectors.map((vector) => vector.join(",")).join(";");

/** The vectors of a text such as "1,2;3,4"; undefined unless their sizes are those of `like`. */
function vectors(text: string, like: readonly Vector[]): Vector[] | undefined {
  const found = text.split(";").map((part) => part.split(",").map(numberIn));
  const fits = found.length === like.length && found.every((each, i) => each.length === like[i]!.length && each.every(Number.isFinite));
  return fits ? found : undefined;
}

export function writeWalk(walk: WalkState): URLSearchParams {
  const initial = walkDefaults();
  const query = new URLSearchParams();
  for (const name of ["scorer", "normalizer", "temperature"] as const) {
    if (walk[name] !== initial[name]) query.set(name, String(walk[name]));
  }
  if (walk.given) {
    query.set("given", JSON.stringify({ ...walk.given, keys: walk.keys }));
    if (walk.moved) query.set("scores", written([walk.moved]));
    return query;
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
  const step = link.read<ReturnType<typeof parseGiven> | null>("given", null, parseGiven);
  return {
    scorer,
    normalizer: known("normalizer", NORMALIZERS),
    temperature: link.number("temperature", 1e-3, 1e3, initial.temperature),
    query: link.read("query", initial.query, (text) => vectors(text, [initial.query])?.[0]),
    keys: step?.keys ?? link.read("keys", initial.keys, (text) => vectors(text, initial.keys)),
    parameters: link.read("parameters", own, (text) => vectors(text, own)),
    given: step?.given ?? null,
    moved: step ? link.read<Vector | null>("scores", null, (text) => vectors(text, [step.given.scores])?.[0]) : null,
  };
}

/** A step of a link; undefined unless it is complete. */
function parseGiven(text: string): { given: Given; keys: Vector[] } | undefined {
  let found: Partial<Given & { keys: Vector[] }> | null;
  try {
    found = JSON.parse(text) as typeof found;
  } catch {
    return undefined;
  }
  const { model, token, link, words, scores, share = null, keys } = found ?? {};
  const areNumbers = (values: unknown, count: number): values is number[] =>
    Array.isArray(values) && values.length === count && values.every(Number.isFinite);
  const areStrings = [model, token, link, ...(Array.isArray(words) ? words : [null])].every((each) => typeof each === "string");
  if (!areStrings || words!.length === 0 || !areNumbers(scores, words!.length) || !Array.isArray(keys)) return undefined;
  const arePoints = keys.length === (share === null ? 0 : words!.length) && keys.every((key) => areNumbers(key, 2));
  if (!arePoints || !(share === null || Number.isFinite(share))) return undefined;
  return { given: { model: model!, token: token!, link: link!, words: words!, scores, share }, keys };
}

const rounded = (values: Vector): number[] => values.map((each) => Number(each.toPrecision(5)));

/** The lesson with the numbers of a step; tokens that its scores exclude are left out. */
export function walkOf(
  step: Pick<Given, "model" | "token" | "link" | "words"> & { scores: readonly (number | null)[]; weights: Vector },
  plane: { points: readonly Vector[]; share: number } | null,
): WalkState {
  const { model, token, link, words, scores, weights } = step;
  const places = words.map((_, j) => j).filter((j) => scores[j] !== null);
  const own = rounded(places.map((j) => scores[j]!));
  return {
    ...walkDefaults(),
    normalizer: normalizerOf(own, places.map((j) => weights[j]!)) ?? walkDefaults().normalizer,
    keys: plane ? places.map((j) => rounded(plane.points[j]!)) : [],
    given: { model, token, link, words: places.map((j) => words[j]!), scores: own, share: plane ? Number(plane.share.toPrecision(3)) : null },
  };
}
