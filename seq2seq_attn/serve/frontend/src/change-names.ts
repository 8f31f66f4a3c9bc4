/** What the reader changed, in words. */

import type { Intervention } from "./api.ts";
import type { Change } from "./changes.ts";
import { shortened } from "./format.ts";
import { type Edit, NO_EDIT, type State } from "./state.ts";

const differ = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);

/** A change of a value that may go on changing, and one that is named as a whole. */
const valued = (subject: string, value: string | number): Change => ({ subject, label: `${subject} ${value}` });
const whole = (label: string): Change => ({ subject: label, label });

/** What differs between two states; null: nothing but what is looked at. */
export function changeBetween(before: State, after: State): Change | null {
  const changed = (...names: (keyof State)[]): boolean => names.some((name) => differ(before[name], after[name]));
  const { source, models, temperature, layer, head } = after;
  if (changed("tab")) return whole(`page ${after.tab}`);
  if (changed("source")) return valued("sentence", quoted(source));
  if (changed("models")) return valued("models", models.join(", "));
  if (changed("temperature")) {
    if (temperature === null || before.temperature === null) return whole(temperature === null ? "search" : "sampling");
    return valued("temperature", temperature);
  }
  if (changed("beam")) return valued("beam", after.beam ?? "of the model");
  if (changed("penalty")) return valued("length penalty", after.penalty ?? "of the model");
  if (changed("topP")) return valued("top p", after.topP);
  if (changed("seed")) return valued("seed", after.seed);
  if (changed("layer", "head")) return whole(`weights of ${layer === null ? "all heads" : `layer ${layer + 1}, head ${head + 1}`}`);
  if (changed("edits")) return changeOfEdits(before.edits, after.edits);
  if (changed("language")) return whole(`language ${after.language ?? "of the browser"}`);
  if (changed("walk")) {
    const names = (Object.keys(after.walk) as (keyof State["walk"])[]).filter((name) => differ(before.walk[name], after.walk[name]));
    return whole(`walk: ${names.join(", ")}`);
  }
  return null;
}

function changeOfEdits(before: State["edits"], after: State["edits"]): Change {
  if (Object.keys(after).length === 0) return whole("all changes reset");
  const model = Object.keys({ ...before, ...after }).find((name) => differ(before[name], after[name]))!;
  return changeOfEdit(before[model] ?? NO_EDIT, after[model] ?? NO_EDIT);
}

function changeOfEdit(before: Edit, after: Edit): Change {
  const without = (given: Intervention[], others: Intervention[]): Intervention | undefined =>
    given.find((each) => !others.some((other) => !differ(each, other)));
  const [added, gone] = [without(after.interventions, before.interventions), without(before.interventions, after.interventions)];
  if (added) return changeTo(added);
  if (gone?.replace === "temperature" || gone?.replace === "normalizer") return whole(`the model's own ${gone.replace}`);
  if (differ(before.source, after.source)) {
    return after.source ? valued("source tokens", quoted(after.source.join(" "))) : whole("source tokens of the tokenizer");
  }
  if (typeof after.prefix === "string" && differ(before.prefix, after.prefix)) return valued("begin with", quoted(after.prefix));
  if (typeof after.prefix !== "string" && after.prefix.length > 0) return whole(`go on from ${quoted(after.prefix.at(-1)!)}`);
  return whole(gone && gone.step !== null ? `reset of step ${gone.step + 1}` : "reset");
}

function changeTo({ replace, step, temperature, normalizer, other }: Intervention): Change {
  const place = step === null ? "every step" : `step ${step + 1}`;
  switch (replace) {
    case "temperature": return valued("attention temperature", temperature!);
    case "normalizer": return whole(`normalizer ${typeof normalizer === "string" ? normalizer : normalizer!.name}`);
    case "weights": return whole(`weights of ${place}`);
    case "sentence": return whole(`${place} reads ${quoted(other ?? "")}`);
    default: return whole(`${place} reads ${replace === "mean" ? "the mean" : replace}`);
  }
}

const quoted = (text: string): string => `“${shortened(text, 32)}”`;
