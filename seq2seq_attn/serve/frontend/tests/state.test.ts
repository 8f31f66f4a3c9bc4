/** What a permalink holds comes back; what is malformed takes its default. */

import { describe, expect, test } from "vitest";
import { defaults, parseState, type State, writeState } from "../src/state.ts";
import { initialParameters, walkDefaults } from "../src/walk-state.ts";

const there = (state: State): State => parseState(writeState(state));

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
    ["translate?beam=0&seed=-1&topP=2&penalty=x&head=a.b&step=1"],
    ["translate?beam=1e9&edits={&step=x@m"],
    ["translate?edits=[]&edits=null"],
    ["anything"],
    [""],
  ])("%s is the default", (address) => expect(parseState(address)).toEqual(defaults()));

  test("leaves out edits that the page could not show", () => {
    const edits = { a: { prefix: 1, interventions: [] }, b: { prefix: [], interventions: [{ replace: "weights", weights: ["1"] }] }, c: null, d: { prefix: "x", interventions: [] } };
    expect(Object.keys(parseState(`translate?edits=${encodeURIComponent(JSON.stringify(edits))}`).edits)).toEqual(["d"]);
  });
  test("of a lesson has its vectors only in the right sizes", () => {
    const walk = parseState("walk?scorer=toString&normalizer=nothing&temperature=-1&query=1,2,3&keys=1,2;x,4;5,6;7,8").walk;
    expect(walk).toEqual(walkDefaults());
  });
});
