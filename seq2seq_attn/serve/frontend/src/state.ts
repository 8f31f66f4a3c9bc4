/** The state of the page that a permalink holds, and its text after the # of the address. */

import type { Intervention } from "./api.ts";
import { Link } from "./link.ts";
import { isLanguage, type Language } from "./story/math.ts";
import { parseWalk, walkDefaults, type WalkState, writeWalk } from "./walk-state.ts";

/** What a user changed in the translation of one model. */
export interface Edit {
  prefix: string | string[]; // as typed, or as tokens
  interventions: Intervention[];
  source?: string[]; // tokens by hand in place of those of the tokenizer
}

export interface Place {
  model: string;
  step: number;
}

export interface State {
  tab: "translate" | "walk" | "story";
  source: string;
  models: string[]; // names; empty: the first
  beam: number | null; // null: that of each model
  penalty: number | null; // null: that of each model
  temperature: number | null; // null: search instead of sampling
  topP: number;
  seed: number;
  layer: number | null; // null: mean of all layers and heads
  head: number;
  focus: Place | null; // the step that is shown in detail
  edits: Record<string, Edit>;
  walk: WalkState;
  language: Language | null; // of the story; null: the reader's
}

/** What was read from a link, and for the reader, what was not. */
export interface FromLink {
  state: State;
  unread: readonly string[];
}

const MOST_OF_EDITS = 1_000_000; // characters: rows of weights of many steps

export const NO_EDIT: Edit = { prefix: [], interventions: [] };

export const isEdited = (edit: Edit): boolean =>
  edit.prefix.length > 0 || edit.interventions.length > 0 || edit.source !== undefined;

export function defaults(): State {
  return {
    tab: "translate",
    source: "",
    models: [],
    beam: null,
    penalty: null,
    temperature: null,
    topP: 1,
    seed: 1,
    layer: null,
    head: 0,
    focus: null,
    edits: {},
    walk: walkDefaults(),
    language: null,
  };
}

/** The fragment of an address, without #: "translate?source=...". Values that are the default are left out. */
export function writeState(state: State): string {
  if (state.tab === "walk") {
    const query = writeWalk(state.walk).toString();
    return query ? `walk?${query}` : "walk";
  }
  if (state.tab === "story") return state.language ? `story?language=${state.language}` : "story";
  const initial = defaults();
  const query = new URLSearchParams();
  if (state.source) query.set("source", state.source);
  for (const name of state.models) query.append("model", name);
  for (const name of ["beam", "penalty", "temperature", "topP", "seed"] as const) {
    if (state[name] !== initial[name]) query.set(name, String(state[name]));
  }
  if (state.layer !== null) query.set("head", `${state.layer}.${state.head}`);
  if (state.focus) query.set("step", `${state.focus.step}@${state.focus.model}`);
  const edits = Object.entries(state.edits).filter(([, edit]) => isEdited(edit));
  if (edits.length > 0) query.set("edits", JSON.stringify(Object.fromEntries(edits)));
  return `translate?${query}`;
}

/** The state of a fragment, and what of it could not be read; that, and what is missing, has its default. */
export function parseState(fragment: string): FromLink {
  const [tab, text = ""] = splitOnce(fragment, "?");
  const link = new Link(new URLSearchParams(text));
  if (tab === "walk") return { state: { ...defaults(), tab, walk: parseWalk(link) }, unread: link.finish() };
  if (tab === "story") {
    const language = link.read<Language | null>("language", null, (name) => (isLanguage(name) ? name : undefined));
    return { state: { ...defaults(), tab, language }, unread: link.finish() };
  }
  if (tab !== "" && tab !== "translate") return { state: defaults(), unread: [`the page ${tab.slice(0, 40)}`] };
  const initial = defaults();
  const [layer, head] = link.read<[number | null, number]>("head", [null, 0], (place) =>
    /^\d+\.\d+$/.test(place) ? (place.split(".").map(Number) as [number, number]) : undefined);
  const state: State = {
    ...initial,
    source: link.read("source", "", (source) => source),
    models: link.all("model"),
    beam: rounded(link.number("beam", 1, 32, initial.beam)),
    penalty: link.number("penalty", 0, 10, initial.penalty),
    temperature: link.number("temperature", 0.01, 100, initial.temperature),
    topP: link.number("topP", 0.001, 1, initial.topP),
    seed: Math.round(link.number("seed", 0, 2 ** 31, initial.seed)),
    layer,
    head,
    focus: link.read<Place | null>("step", null, (place) => {
      const [step, model] = splitOnce(place, "@");
      return model !== undefined && /^\d+$/.test(step) ? { model, step: Number(step) } : undefined;
    }),
    edits: link.read("edits", {}, (json) => parseEdits(json, link.unread), MOST_OF_EDITS),
  };
  return { state, unread: link.finish() };
}

/** The state without the models that nobody serves, and which ones these are. */
export function ofServed(state: State, served: readonly string[]): FromLink {
  const { models, focus, edits } = state;
  const isServed = (name: string): boolean => served.includes(name);
  const named = [...models, ...(focus ? [focus.model] : []), ...Object.keys(edits)];
  const unknown = [...new Set(named.filter((name) => !isServed(name)))];
  if (unknown.length === 0) return { state, unread: [] };
  const kept = {
    models: models.filter(isServed),
    focus: focus && isServed(focus.model) ? focus : null,
    edits: Object.fromEntries(Object.entries(edits).filter(([name]) => isServed(name))),
  };
  return { state: { ...state, ...kept }, unread: unknown.map((name) => `model ${name}, which is not served here`) };
}

const rounded = (value: number | null): number | null => (value === null ? null : Math.round(value));

function splitOnce(text: string, mark: string): [string, string | undefined] {
  const place = text.indexOf(mark);
  return place < 0 ? [text, undefined] : [text.slice(0, place), text.slice(place + 1)];
}

/** The edits by model. The server knows which of them fit the sentence; here, each has the type that it should. */
function parseEdits(json: string, unread: string[]): Record<string, Edit> | undefined {
  let values: unknown;
  try {
    values = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isRecord(values)) return undefined;
  const edits = Object.entries(values).map(([model, value]) => [model, parseEdit(value, `edits of ${model}`, unread)] as const);
  return Object.fromEntries(edits.filter(([, edit]) => isEdited(edit)));
}

function parseEdit(value: unknown, name: string, unread: string[]): Edit {
  if (!isRecord(value)) {
    unread.push(name);
    return NO_EDIT;
  }
  const { prefix = [], interventions = [], source } = value;
  const hasPrefix = typeof prefix === "string" || areTokens(prefix);
  const hasSource = areTokens(source) && source.length > 0;
  const given: unknown[] = Array.isArray(interventions) ? interventions : [interventions];
  const read = given.map(parseIntervention).filter((each) => each !== undefined);
  if (!hasPrefix) unread.push(`${name}: prefix`);
  if (source !== undefined && !hasSource) unread.push(`${name}: source`);
  if (read.length < given.length) unread.push(`${name}: ${given.length - read.length} of ${given.length} interventions`);
  return { prefix: hasPrefix ? prefix : [], interventions: read, ...(hasSource && { source }) };
}

/** What the field that belongs to a replacement must be; the others have none. */
const FIELDS: Record<Intervention["replace"], ["weights" | "other" | "temperature" | "normalizer", (value: unknown) => boolean] | null> = {
  weights: ["weights", (value) => Array.isArray(value) && value.every((each) => Number.isFinite(each) && each >= 0)],
  sentence: ["other", (value) => typeof value === "string"],
  temperature: ["temperature", (value) => Number.isFinite(value) && (value as number) > 0],
  normalizer: ["normalizer", (value) => typeof value === "string" || (isRecord(value) && typeof value["name"] === "string")],
  mean: null,
  nothing: null,
};

function parseIntervention(value: unknown): Intervention | undefined {
  if (!isRecord(value)) return undefined;
  const { replace, step = null, layer = null, head = null } = value;
  const isPlace = (each: unknown): each is number | null => each === null || (Number.isInteger(each) && (each as number) >= 0);
  if (typeof replace !== "string" || !Object.hasOwn(FIELDS, replace)) return undefined;
  if (!isPlace(step) || !isPlace(layer) || !isPlace(head)) return undefined;
  const place = { replace: replace as Intervention["replace"], step, layer, head };
  const field = FIELDS[place.replace];
  if (!field) return place;
  const [name, fits] = field;
  return fits(value[name]) ? { ...place, [name]: value[name] } : undefined;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const areTokens = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((token) => typeof token === "string");
