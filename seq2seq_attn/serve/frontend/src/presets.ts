/** Sentences and settings to begin with, made from what is served. */

import type { ModelInfo } from "./api.ts";
import { exampleName, readsText } from "./sent-files.ts";
import { wordsIn } from "./sentences.ts";
import type { State } from "./state.ts";

interface Preset {
  title: string;
  meaning: string;
  patch: Partial<State>;
}

const FIRST = "Tom chases Jerry .";
const PASSIVE = /\b(is|are|was|were|be|been|being) \w+ed by\b/;

/** What the page begins with: a sentence, or a source of another kind. */
export function firstSource(model: ModelInfo): string {
  const { source, examples } = model;
  if (!readsText(model)) return examples.length > 0 ? exampleName(0) : "";
  return source === "en" ? FIRST : (examples[0]?.source ?? "");
}

/** The presets that these models have; a sentence is one of the first model's examples. */
export function presets(models: readonly ModelInfo[]): Preset[] {
  const [first] = models;
  if (!first || first.source !== "en" || !readsText(first)) return [];
  const sentences = first.examples.map(({ source }) => source);
  const found: Preset[] = [];
  const add = (title: string, meaning: string, source: string | undefined, more: Partial<State> = {}): void => {
    if (source !== undefined) found.push({ title, meaning, patch: { source, edits: {}, focus: null, ...more } });
  };
  add("Tom chases Jerry", "A short sentence, in the same order in both languages", FIRST, { models: [] });
  add("Passive", "The two languages order the words of a passive differently", sentences.find((each) => PASSIVE.test(each)));
  add("Question", "The two languages ask differently", sentences.find((each) => each.endsWith("?")));
  const long = sentences.findLast((each) => wordsIn(each).length >= 30); // examples are sorted by length
  if (long !== undefined) add(`${wordsIn(long).length} words`, "A long sentence", long);
  const [attending, constant] = [models.find(({ heads }) => heads.length > 0), models.find(({ heads }) => heads.length === 0)];
  if (attending && constant) add("One vector", "The same sentence, also by a model that reads one vector at every step", long, { models: [attending.name, constant.name] });
  // Glosses show that words are tokens, so that the row of weights fits the sentence.
  if (attending && Object.keys(attending.glosses ?? {}).length > 0) {
    const wrong = { replace: "weights" as const, step: 1, layer: null, head: null, weights: [0, 0, 1, 0, 0] };
    add("Wrong word", "Attention on the wrong word: the second step reads the third word", FIRST, {
      models: [attending.name],
      focus: { model: attending.name, step: 1 },
      edits: { [attending.name]: { prefix: [], interventions: [wrong] } },
    });
  }
  return found;
}

/** Whether the page shows this preset. */
export const isShown = ({ patch }: Preset, state: State): boolean =>
  patch.source === state.source &&
  JSON.stringify(patch.edits) === JSON.stringify(state.edits) &&
  (patch.models === undefined || patch.models.join() === state.models.join());
