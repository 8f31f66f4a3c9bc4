/** Which step of each model is shown. */

import { describe, expect, test } from "vitest";
import type { Decoded, ModelInfo } from "../src/api.ts";
import { placeIn, stepOf } from "../src/focus.ts";

/** A model that translates to these tokens; null: not yet. */
const pane = (name: string, tokens: string | null, attends = true) => ({
  info: { name } as ModelInfo,
  attends,
  current: tokens === null ? null : ({ steps: tokens.split(" ").map((token) => ({ token })) } as Decoded),
});

describe("the chosen step", () => {
  const shown = [pane("none", "a b c d", false), pane("a", "a b c")];
  test("is that of its model, and the last of a translation that is shorter", () => {
    expect(placeIn({ model: "none", step: 2 }, shown)).toEqual({ model: "none", step: 2 });
    expect(placeIn({ model: "a", step: 20 }, shown)).toEqual({ model: "a", step: 2 });
    expect(placeIn({ model: "a", step: 20 }, [pane("a", null)])).toEqual({ model: "a", step: 0 });
  });
  test("is from the start the second of the first model that attends, or the only one", () => {
    for (const focus of [null, { model: "hidden", step: 3 }]) expect(placeIn(focus, shown)).toEqual({ model: "a", step: 1 });
    expect(placeIn(null, [pane("none", "a", false)])).toEqual({ model: "none", step: 0 });
    expect(placeIn(null, [pane("a", null)])).toBeNull();
  });
});

test("other models show the step that is aligned with the chosen one, or the one before it", () => {
  const [own, longer, shorter] = [pane("own", "a b c"), pane("longer", "x a b c"), pane("shorter", "a c")];
  const shown = [own, longer, shorter, pane("later", null)];
  const place = placeIn({ model: "own", step: 1 }, shown);
  expect(shown.map((each) => stepOf(each, place, shown))).toEqual([1, 2, 0, null]);
});
