/** What a permalink holds comes back; what is malformed takes its default and is named. */

import { describe, expect, test } from "vitest";
import { defaults, ofServed, parseState, type State, writeState } from "../src/state.ts";
import { initialParameters, walkDefaults } from "../src/walk-state.ts";

const there = (state: State): State => parseState(writeState(state)).state;
const withEdits = (edits: unknown): string => `translate?edits=${encodeURIComponent(JSON.stringify(edits))}`;

describe("the address of a state", () => {
  test("is short by default", () => {
    expect(writeState(defaults())).toBe("translate?");
    expect(writeState({ ...defaults(), tab: "walk" })).toBe("walk");
  });
  test("holds all of a translation", () => {
    const state: State = {
      ...defaults(),
      source: "Tom & Jerry = 50 % #1?",
      models: ["a/b", "c@d"],
      beam: 5,
      penalty: 0.6,
      temperature: 0.7,
      topP: 0.9,
      seed: 7,
      layer: 1,
      head: 3,
      focus: { model: "c@d", step: 12 },
      edits: { "a/b": { prefix: ["汤姆"], source: ["T", "om"], interventions: [{ replace: "weights", step: 0, layer: null, head: null, weights: [1, 0] }] } },
    };
    expect(there(state)).toEqual(state);
  });
  test("holds all of a lesson", () => {
    const walk = { ...walkDefaults(), scorer: "additive", normalizer: "sparsemax", temperature: 2, query: [0.25, -3], parameters: initialParameters("additive") };
    expect(there({ ...defaults(), tab: "walk", walk }).walk).toEqual(walk);
  });
});

describe("a malformed address", () => {
  test.each([
    ["translate?beam=0&seed=-1&topP=2&penalty=x&head=a.b&step=1", ["head=a.b", "beam=0", "penalty=x", "topP=2", "seed=-1", "step=1"]],
    ["translate?beam=1e9&edits={&step=x@m", ["beam=1e9", "step=x@m", "edits={"]],
    ["translate?temperature=hot", ["temperature=hot"]],
    ["translate?edits=[]", ["edits=[]"]],
    ["translate?edits=null", ["edits=null"]],
    ["translate?temperatur=2", ["temperatur"]],
    ["anything", ["the page anything"]],
    ["", []],
  ])("%s is the default, and what was left out is said", (address, unread) => {
    expect(parseState(address)).toEqual({ state: defaults(), unread });
  });

  test("keeps what is readable beside what is not", () => {
    const { state, unread } = parseState("translate?source=a+b&beam=0&seed=7");
    expect(state).toEqual({ ...defaults(), source: "a b", seed: 7 });
    expect(unread).toEqual(["beam=0"]);
  });
  test("keeps of its edits what has the right types", () => {
    const mean = { replace: "mean", step: 1, layer: null, head: null };
    const { state, unread } = parseState(withEdits({
      a: { prefix: "x", interventions: [null, mean, 7, { replace: "weights", weights: ["1"] }, { replace: "temperature", temperature: 0 }] },
      b: { prefix: 1, interventions: [mean] },
      c: null,
      d: { source: "x" },
      e: { interventions: { replace: "toString" } },
      f: { interventions: [{ replace: "nothing", step: -1 }, { replace: "sentence" }, { replace: "normalizer", normalizer: {} }] },
    }));
    expect(state.edits).toEqual({ a: { prefix: "x", interventions: [mean] }, b: { prefix: [], interventions: [mean] } });
    expect(unread).toEqual([
      "edits of a: 4 of 5 interventions", "edits of b: prefix", "edits of c", "edits of d: source",
      "edits of e: 1 of 1 interventions", "edits of f: 3 of 3 interventions",
    ]);
  });
  test("has no place for a value without an end", () => {
    const { state, unread } = parseState(`translate?source=${"a".repeat(10_001)}&beam=4`);
    expect(state).toEqual({ ...defaults(), beam: 4 });
    expect(unread).toEqual(["source, which has 10001 characters (at most 10000)"]);
    expect(parseState(`translate?model=${"a".repeat(10_001)}`)).toEqual({ state: defaults(), unread: ["model, which has 10001 characters (at most 10000)"] });
  });
  test("says a long value in short", () => {
    expect(parseState(`translate?beam=${"9".repeat(500)}`).unread[0]!.length).toBeLessThan(60);
  });
  test("of a lesson has its vectors only in the right sizes", () => {
    const { state, unread } = parseState("walk?scorer=toString&normalizer=nothing&temperature=-1&query=1,2,3&keys=1,2;x,4;5,6;7,8");
    expect(state.walk).toEqual(walkDefaults());
    expect(unread).toHaveLength(5);
    expect(parseState("walk?query=,1").unread).toEqual(["query=,1"]);
  });
});

test("models that are not served are left out with their edits and their step", () => {
  const edit = { prefix: "x", interventions: [] };
  const state: State = { ...defaults(), models: ["a", "b"], focus: { model: "b", step: 1 }, edits: { b: edit, a: edit } };
  const found = ofServed(state, ["a", "c"]);
  expect(found.state).toEqual({ ...state, models: ["a"], focus: null, edits: { a: edit } });
  expect(found.unread).toEqual(["model b, which is not served here"]);
  expect(ofServed(state, ["a", "b"])).toEqual({ state, unread: [] });
});
