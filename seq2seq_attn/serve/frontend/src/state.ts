/** The state of the page that a permalink holds, and its text after the # of the address. */

import type { Intervention } from "./api.ts";
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
  tab: "translate" | "walk";
  source: string;
  models: string[]; // names; empty: the first
  beam: number;
  penalty: number;
  temperature: number | null; // null: search instead of sampling
  topP: number;
  seed: number;
  layer: number | null; // null: mean of all layers and heads
  head: number;
  focus: Place | null; // the step that is shown in detail
  edits: Record<string, Edit>;
  walk: WalkState;
}

export const NO_EDIT: Edit = { prefix: [], interventions: [] };

export const isEdited = (edit: Edit): boolean =>
  edit.prefix.length > 0 || edit.interventions.length > 0 || edit.source !== undefined;

export function defaults(): State {
  return {
    tab: "translate",
    source: "",
    models: [],
    beam: 1,
    penalty: 1,
    temperature: null,
    topP: 1,
    seed: 1,
    layer: null,
    head: 0,
    focus: null,
    edits: {},
    walk: walkDefaults(),
  };
}

/** The fragment of an address, without #: "translate?source=...". Values that are the default are left out. */
export function writeState(state: State): string {
  if (state.tab === "walk") {
    const query = writeWalk(state.walk).toString();
    return query ? `walk?${query}` : "walk";
  }
  const initial = defaults();
  const query = new URLSearchParams();
  if (state.source) query.set("source", state.source);
  for (const name of state.models) query.append("model", name);
  for (const name of ["beam", "penalty", "topP", "seed"] as const) {
    if (state[name] !== initial[name]) query.set(name, String(state[name]));
  }
  if (state.temperature !== null) query.set("temperature", String(state.temperature));
  if (state.layer !== null) query.set("head", `${state.layer}.${state.head}`);
  if (state.focus) query.set("step", `${state.focus.step}@${state.focus.model}`);
  const edits = Object.entries(state.edits).filter(([, edit]) => isEdited(edit));
  if (edits.length > 0) query.set("edits", JSON.stringify(Object.fromEntries(edits)));
  return `translate?${query}`;
}

/** The state of a fragment; what is missing or malformed takes its default. */
export function parseState(fragment: string): State {
  const [tab, text = ""] = splitOnce(fragment, "?");
  const state = defaults();
  const query = new URLSearchParams(text);
  if (tab === "walk") return { ...state, tab, walk: parseWalk(query) };
  const number = (name: string, low: number, high: number, initial: number): number => {
    const given = query.get(name);
    const value = Number(given);
    return given !== null && value >= low && value <= high ? value : initial;
  };
  const [layer, head] = (query.get("head") ?? "").split(".").map(Number);
  const [step, model] = splitOnce(query.get("step") ?? "", "@");
  return {
    ...state,
    source: query.get("source") ?? "",
    models: query.getAll("model"),
    beam: Math.round(number("beam", 1, 32, state.beam)),
    penalty: number("penalty", 0, 10, state.penalty),
    temperature: query.has("temperature") ? number("temperature", 0.01, 100, 1) : null,
    topP: number("topP", 0.001, 1, state.topP),
    seed: Math.round(number("seed", 0, 2 ** 31, state.seed)),
    layer: Number.isInteger(layer) && Number.isInteger(head) ? layer! : null,
    head: Number.isInteger(head) ? head! : 0,
    focus: model !== undefined && /^\d+$/.test(step) ? { model, step: Number(step) } : null,
    edits: parseEdits(query.get("edits")),
  };
}

function splitOnce(text: string, mark: string): [string, string | undefined] {
  const place = text.indexOf(mark);
  return place < 0 ? [text, undefined] : [text.slice(0, place), text.slice(place + 1)];
}

/** The server checks the interventions; here, only what the page itself relies on. */
function parseEdits(text: string | null): Record<string, Edit> {
  let values: unknown;
  try {
    values = JSON.parse(text ?? "{}");
  } catch {
    return {};
  }
  if (typeof values !== "object" || values === null) return {};
  return Object.fromEntries(Object.entries(values).filter((pair): pair is [string, Edit] => isEdit(pair[1])));
}

function isEdit(value: unknown): value is Edit {
  if (typeof value !== "object" || value === null) return false;
  const { prefix, interventions, source } = value as Partial<Edit>;
  const areTokens = (each: unknown): boolean =>
    Array.isArray(each) && each.every((token) => typeof token === "string");
  const isRow = (row: unknown): boolean => Array.isArray(row) && row.every((each) => typeof each === "number");
  return (
    (typeof prefix === "string" || areTokens(prefix)) &&
    (source === undefined || areTokens(source)) &&
    Array.isArray(interventions) &&
    interventions.every((each) => each.replace !== "weights" || isRow(each.weights))
  );
}
