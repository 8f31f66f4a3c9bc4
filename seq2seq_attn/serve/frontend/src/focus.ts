/** Which step of each model is shown: the chosen one, and in the other models the one that is aligned with it. */

import { aligned } from "./align.ts";
import type { Decoded } from "./api.ts";
import { tokensOf } from "./reading.ts";
import type { Pane } from "./session.ts";
import type { Place } from "./state.ts";

type Shown = Pick<Pane, "info" | "attends" | "current">;

/** The step that is shown from the start: the second, which has a word before it. */
const openingStep = (steps: number): number => Math.min(1, steps - 1);

/** The chosen step, or the last one of a shorter translation; one is chosen from the start. */
export function placeIn(focus: Place | null, shown: readonly Shown[]): Place | null {
  const chosen = shown.find(({ info }) => info.name === focus?.model);
  if (focus && chosen) return { ...focus, step: Math.min(focus.step, Math.max(1, chosen.current?.steps.length ?? 1) - 1) };
  const first = shown.find((pane) => pane.attends) ?? shown[0];
  return first?.current ? { model: first.info.name, step: openingStep(first.current.steps.length) } : null;
}

/** The step of a pane, given that of `placeIn`. */
export function stepOf(pane: Shown, place: Place | null, shown: readonly Shown[]): number | null {
  if (!place || !pane.current || pane.current.steps.length === 0) return null;
  const chosen = shown.find(({ info }) => info.name === place.model)!;
  return chosen === pane || !chosen.current ? place.step : sameColumn(chosen.current, place.step, pane.current);
}

/** The step of `other` in the same column as a step of `own`, or the nearest one before it. */
function sameColumn(own: Decoded, step: number, other: Decoded): number {
  const [first, second] = aligned([own, other].map(tokensOf));
  const column = first!.findIndex((cell) => cell?.step === step);
  const before = second!.slice(0, column + 1).findLast((cell) => cell !== null);
  return before?.step ?? 0;
}
