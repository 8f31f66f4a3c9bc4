/** The keys of the page, and their list. */

type Command = "undo" | "redo" | "present" | "leave" | "help";

export const KEYS: readonly (readonly [string, string])[] = [
  ["Ctrl Z or ⌘ Z", "undo"],
  ["Shift Ctrl Z or Shift ⌘ Z", "redo"],
  ["P", "present: large type, no forms; P or Escape ends it"],
  ["?", "this list"],
  ["Enter", "in the sentence: translate"],
  ["← →", "on a token: the step before or after; on a bar: the bar beside it"],
  ["↑ ↓ Page Up Page Down", "on a bar: more weight, or less"],
  ["Home, End", "on a bar: no weight, or all"],
];

/** Where arrow keys go: 1 further, -1 back. */
export const ARROWS: Readonly<Record<string, { across: number; down: number }>> = {
  ArrowLeft: { across: -1, down: 0 },
  ArrowRight: { across: 1, down: 0 },
  ArrowUp: { across: 0, down: -1 },
  ArrowDown: { across: 0, down: 1 },
};

/** What a key asks of the page. Where text is typed, all keys are the field's. */
export function commandOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">, isTyped: boolean): Command | null {
  const { key, ctrlKey, metaKey, shiftKey, altKey } = event;
  if (key === "Escape") return "leave";
  if (isTyped || altKey) return null;
  if (ctrlKey || metaKey) return key.toLowerCase() !== "z" ? null : shiftKey ? "redo" : "undo";
  return key === "?" ? "help" : key.toLowerCase() === "p" ? "present" : null;
}

/** Whether keys are typed into an element. */
export const isTypedInto = (element: Element | null): boolean =>
  element?.matches("textarea, select, input:not([type=range], [type=checkbox])") ?? false;
