/** Which keys ask for what, and where they are left to a field. */

import { expect, test } from "vitest";
import { commandOf } from "../src/keys.ts";

const press = (key: string, modifiers: Partial<KeyboardEvent> = {}, isTyped = false) =>
  commandOf({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...modifiers }, isTyped);

test("undo and redo have the keys of other programs, on any system", () => {
  for (const held of [{ ctrlKey: true }, { metaKey: true }]) {
    expect(press("z", held)).toBe("undo");
    expect(press("Z", { ...held, shiftKey: true })).toBe("redo");
    expect(press("p", held)).toBe(null); // which prints
  }
});

test("a letter alone presents or helps, and means nothing with Alt", () => {
  expect([press("p"), press("?", { shiftKey: true }), press("z"), press("p", { altKey: true })]).toEqual(["present", "help", null, null]);
});

test("a text field keeps its own undo and its letters, and Escape leaves from anywhere", () => {
  expect([press("z", { ctrlKey: true }, true), press("p", {}, true), press("?", {}, true)]).toEqual([null, null, null]);
  expect(press("Escape", {}, true)).toBe("leave");
});
