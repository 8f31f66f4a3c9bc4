/** Which changes are entries of the browser's history, what they are called, and what is undone and redone. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { changeBetween } from "../src/change-names.ts";
import { added, arrived, Changes } from "../src/changes.ts";
import { atTemperature, goingOn, intervened, placed, withNormalizer, withoutStep } from "../src/edits.ts";
import { defaults, NO_EDIT, type Edit, type State } from "../src/state.ts";

describe("a trail", () => {
  const trail = added(added({ labels: ["start"], place: 0 }, "a"), "b");
  test("loses what was undone when there is another change", () => {
    expect(added(arrived(trail, ["start", "a"]), "c")).toEqual({ labels: ["start", "a", "c"], place: 2 });
  });
  test("keeps what was undone while nothing else changes", () => {
    expect(arrived(trail, ["start"])).toEqual({ labels: ["start", "a", "b"], place: 0 });
  });
  test("is that of the browser where it does not know the entry", () => {
    expect(arrived(trail, ["start", "x"])).toEqual({ labels: ["start", "x"], place: 1 });
    expect(arrived({ labels: ["start"], place: 0 }, ["start", "a", "b"])).toEqual({ labels: ["start", "a", "b"], place: 2 });
  });
});

/** A browser's history, as far as the page uses it. */
function browser() {
  const entries: { state: unknown; address: string }[] = [{ state: null, address: "" }];
  let place = 0;
  const history = {
    get state() { return entries[place]!.state; },
    pushState(state: unknown, _: string, address: string) {
      entries.splice((place += 1), Infinity, { state, address });
    },
    replaceState(state: unknown, _: string, address: string) {
      entries[place] = { state, address };
    },
    go(by: number) {
      place += by;
      changes.arrive(entries[place]!.state, entries[place]!.address.slice(1));
    },
  };
  const changes: Changes = new Changes(history, () => undefined);
  changes.begin("0");
  return { changes, history, addresses: () => entries.map(({ address }) => address), shown: () => entries[place]!.address };
}

describe("the browser's history", () => {
  const label = (text: string) => ({ subject: text, label: text });
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("has an entry for each change, which are undone and redone", () => {
    const { changes, addresses, shown } = browser();
    for (const text of ["1", "2", "3"]) {
      changes.note(label(text), text);
      vi.advanceTimersByTime(2000);
    }
    expect(addresses()).toEqual(["#0", "#1", "#2", "#3"]);
    changes.go(1);
    expect([shown(), changes.trail]).toEqual(["#1", { labels: ["start", "1", "2", "3"], place: 1 }]);
    changes.go(99);
    expect(shown()).toBe("#3");
    changes.go(-1);
    expect(shown()).toBe("#0");
  });
  test("has one entry for a drag, however long it pauses", () => {
    const { changes, addresses } = browser();
    changes.press(true);
    for (const place of ["1", "2", "3"]) {
      changes.note(label("weights"), place);
      vi.advanceTimersByTime(5000);
    }
    expect(addresses()).toEqual(["#0"]);
    changes.press(false);
    vi.advanceTimersByTime(200);
    expect(addresses()).toEqual(["#0", "#3"]);
  });
  test("has one entry for keys that follow each other, and two for others", () => {
    const { changes, addresses } = browser();
    for (const [subject, address] of [["beam", "1"], ["beam", "2"], ["seed", "3"]] as const) {
      changes.note({ subject, label: address }, address);
      vi.advanceTimersByTime(300);
    }
    expect(addresses()).toEqual(["#0", "#2", "#3"]);
    expect(changes.trail.labels).toEqual(["start", "2", "3"]);
  });
  test("keeps a change apart that follows another one within an instant", () => {
    const { changes, addresses } = browser();
    changes.note(label("a"), "1");
    changes.note(label("b"), "2");
    vi.advanceTimersByTime(200);
    expect(addresses()).toEqual(["#0", "#1", "#2"]);
  });
  test("has no entry for what is only looked at, which its own entry holds", () => {
    const { changes, addresses } = browser();
    changes.note(label("a"), "1");
    vi.advanceTimersByTime(200);
    changes.note(null, "1 step 2");
    vi.advanceTimersByTime(200);
    expect(addresses()).toEqual(["#0", "#1 step 2"]);
  });
  test("undoes a change that has no entry yet", () => {
    const { changes, shown } = browser();
    changes.note(label("a"), "1");
    changes.go(0);
    vi.advanceTimersByTime(200);
    expect([shown(), changes.trail.labels]).toEqual(["#0", ["start", "a"]]);
  });
  test("names an address that was typed, and knows after a reload what can be undone", () => {
    const { changes, history } = browser();
    history.pushState(null, "", "#typed");
    changes.arrive(null, "typed");
    expect(changes.trail).toEqual({ labels: ["start", "another link"], place: 1 });
    expect(new Changes(history, () => undefined).trail).toEqual(changes.trail);
  });
});

describe("a change is called", () => {
  const view = { layer: null, head: 0 };
  const edit = intervened(NO_EDIT, ["a", "b"], placed(view, 1, { replace: "weights", weights: [1, 0] }));
  const edited = (each: Edit): State => ({ ...defaults(), edits: { m: each } });
  const read = (replace: "mean" | "nothing") => intervened(NO_EDIT, [], placed(view, null, { replace }));
  test.each<[string, State, State]>([
    ["sentence “Tom chases Jerry .”", defaults(), { ...defaults(), source: "Tom chases Jerry .", edits: { m: edit } }],
    ["beam 4", defaults(), { ...defaults(), beam: 4 }],
    ["sampling", defaults(), { ...defaults(), temperature: 1 }],
    ["temperature 0.5", { ...defaults(), temperature: 1 }, { ...defaults(), temperature: 0.5 }],
    ["models a, b", defaults(), { ...defaults(), models: ["a", "b"] }],
    ["weights of layer 1, head 2", defaults(), { ...defaults(), layer: 0, head: 1 }],
    ["weights of step 2", defaults(), edited(edit)],
    ["every step reads the mean", defaults(), edited(read("mean"))],
    ["every step reads nothing", edited(edit), edited(read("nothing"))],
    ["attention temperature 3", edited(edit), edited(atTemperature(edit, view, 3))],
    ["the model's own normalizer", edited(withNormalizer(edit, view, "sparsemax")), edited(edit)],
    ["go on from “y”", defaults(), edited(goingOn(NO_EDIT, ["x", "y"]))],
    ["begin with “the”", defaults(), edited({ ...NO_EDIT, prefix: "the" })],
    ["source tokens “a b”", defaults(), edited({ ...NO_EDIT, source: ["a", "b"] })],
    ["reset of step 2", edited(edit), edited(withoutStep(edit, 1))],
    ["all changes reset", edited(edit), defaults()],
    ["page walk", defaults(), { ...defaults(), tab: "walk" }],
    ["language zh", defaults(), { ...defaults(), language: "zh" }],
    ["walk: query", defaults(), { ...defaults(), walk: { ...defaults().walk, query: [0, 0] } }],
  ])("%s", (label, before, after) => expect(changeBetween(before, after)?.label).toBe(label));

  test("nothing if another step is looked at", () => {
    expect(changeBetween(defaults(), { ...defaults(), focus: { model: "m", step: 1 } })).toBe(null);
  });
  test("by one subject while a value moves, and by two for two steps", () => {
    const subject = (before: State, after: State): string => changeBetween(before, after)!.subject;
    expect(subject(defaults(), { ...defaults(), beam: 2 })).toBe(subject(defaults(), { ...defaults(), beam: 3 }));
    const other = intervened(edit, ["a", "b"], placed(view, 0, { replace: "weights", weights: [1, 0] }));
    expect(subject(defaults(), edited(edit))).not.toBe(subject(edited(edit), edited(other)));
  });
});
