/** The seven screens of the story. Each shows a figure of the page with numbers of a model, and changes one thing. */

import { html, nothing, type TemplateResult } from "lit";
import "../bands.ts";
import { barTable } from "../bar-table.ts";
import type { Decoded, ModelInfo, SelfAttention, ValuePlane } from "../api.ts";
import { few, fixed, share } from "../format.ts";
import "../heat-map.ts";
import type { Languages } from "../heat-map.ts";
import { largest, upTo } from "../numbers.ts";
import { reading, tokensOf, viewOf } from "../reading.ts";
import { wordsIn } from "../sentences.ts";
import { defaults, type State, writeState } from "../state.ts";
import { context, NORMALIZERS, partialSums, reachOf } from "../walk-math.ts";
import { temperatureSlider } from "../temperature.ts";
import type { WalkPlane } from "../walk-plane.ts";
import { type WalkState, walkDefaults, walkOf, wordsOf } from "../walk-state.ts";
import type { Texts } from "./en.ts";
import { type Cast, compared, filled, meanOf, selfWeights } from "./math.ts";

/** What a reader chose on the screens. */
export interface Choice {
  sentence: number; // of the first screen
  length: number; // of the second one: a place in the examples
  step: number; // from the third screen to the fifth
  temperature: number;
  word: number; // that asks in self-attention
  head: number; // counted through all layers
}

export const FIRST_CHOICE: Choice = { sentence: 0, length: 0, step: 1, temperature: 1, word: 0, head: 0 };

/** What the screens are drawn from. Answers are null until they are there, and errors where they will not be. */
export interface Story {
  texts: Texts;
  cast: Cast;
  sentences: readonly string[]; // short ones
  choice: Choice;
  change: (patch: Partial<Choice>) => void;
  decoded: (model: ModelInfo, source: string) => Decoded | Error | null;
  plane: (model: ModelInfo, source: string) => ValuePlane | Error | null;
  selfAttention: (model: ModelInfo, source: string) => SelfAttention | Error | null;
}

export interface Screen {
  name: "vector" | "breaks" | "score" | "softmax" | "context" | "self" | "heads";
  figure: (story: Story) => TemplateResult;
  link: (story: Story) => string | null; // what the address of the page says after #
}

const address = (patch: Partial<State>): string => writeState({ ...defaults(), ...patch });
const missing = ({ texts }: Story): TemplateResult => html`<p class="note">${texts.missing}</p>`;

/** What is drawn of an answer, or why there is none yet. */
function answered<T>(story: Story, answer: T | Error | null, draw: (answer: T) => TemplateResult): TemplateResult {
  if (answer === null) return html`<p class="note" aria-busy="true">${story.texts.waiting}</p>`;
  return answer instanceof Error ? html`<p class="error" role="alert">${answer.message}</p>` : draw(answer);
}

/** Choices of which one is pressed. */
function choices(label: string, names: readonly string[], chosen: number, language: string, choose: (place: number) => void): TemplateResult {
  return html`<div class="choices" role="group" aria-label=${label}>${names.map((name, place) => html`
    <button type="button" lang=${language} aria-pressed=${place === chosen} @click=${() => choose(place)}>${name}</button>`)}</div>`;
}

/** Figures ask the page for a step; in the story, that is a choice of the screen. */
const chosenBy = (choose: (place: number) => void) => (event: CustomEvent<{ step: number }>): void => {
  event.stopPropagation();
  choose(event.detail.step);
};

// 1

function vector(story: Story): TemplateResult {
  const { cast: { vector: model }, choice, sentences, texts, change } = story;
  if (!model) return missing(story);
  const source = sentences[choice.sentence]!;
  return html`${choices(texts.vectorTry, sentences, choice.sentence, model.source, (sentence) => change({ sentence }))}
    ${answered(story, story.decoded(model, source), (found) => {
      const target = tokensOf(found);
      const languages = { source: model.source, target: model.target };
      const equal = found.source.map(() => 1 / found.source.length);
      const ignore = chosenBy(() => undefined);
      return html`<div class="funnel" @focus-step=${ignore}>
        <attention-bands .model=${model.name} .source=${found.source} .target=${["C"]} .weights=${[equal]} .edited=${NO_STEPS} .languages=${languages} .focusStep=${null} .most=${FUNNEL}></attention-bands>
        <attention-bands .model=${model.name} .source=${["C"]} .target=${target} .weights=${target.map(() => [1])} .edited=${NO_STEPS} .languages=${languages} .focusStep=${null} .most=${FUNNEL}></attention-bands></div>`;
    })}`;
}

const NO_STEPS: ReadonlySet<number> = new Set();
const FUNNEL = 130; // pixels to C, and from it: both are seen at once on a projector

// 2

function breaks(story: Story): TemplateResult {
  const { cast: { attention, vector: fixedModel }, choice, texts, change } = story;
  const models = [fixedModel, attention].filter((each) => each !== null);
  if (models.length === 0) return missing(story);
  const { examples } = models[0]!;
  const example = examples[choice.length];
  if (!example) return html`<p class="note">${texts.noExamples}</p>`;
  const length = filled(texts.breaksLength, { count: wordsIn(example.source).length });
  return html`<label class="slider">${length}
      <input type="range" id="story-length" min="0" max=${examples.length - 1} .value=${String(choice.length)} aria-valuetext=${length}
        @input=${(event: Event) => change({ length: Number((event.target as HTMLInputElement).value) })}></label>
    <p class="example" lang=${models[0]!.source}>${example.source}</p>
    <dl class="compared"><dt>${texts.reference}</dt><dd lang=${models[0]!.target}>${example.target}</dd>
      ${models.map((model) => html`<dt>${model === attention ? texts.attention : texts.oneVector}</dt>
        <dd data-model=${model.name}>${answered(story, story.decoded(model, example.source), (found) => {
          const { own, reference, same } = compared(example.target, found.text);
          return html`<span lang=${model.target}>${own.map((cell) => (cell === null ? nothing : html`<span class=${cell.differs ? "differs" : ""}>${cell.token}</span> `))}</span>
            <small class="same">${filled(texts.same, { same, all: reference.filter((cell) => cell !== null).length })}</small>`;
        })}</dd>`)}</dl>`;
}

// 3 to 5: one step of the model with attention

interface StepNumbers {
  found: Decoded;
  step: number;
  words: readonly string[];
  scores: number[];
  walk: WalkState; // the lesson with these numbers, as far as they are there
}

/** The chosen step, or why there is none. */
function stepOf(story: Story): StepNumbers | Error | null {
  const { cast: { attention: model }, choice, sentences } = story;
  const source = sentences[0]!;
  const found = story.decoded(model!, source);
  if (found === null || found instanceof Error) return found;
  const step = Math.min(choice.step, found.steps.length - 1);
  const view = viewOf({ layer: 0, head: 0 }, model!);
  const read = reading(found.steps[step]!, view);
  if (!read?.scores) return new Error(story.texts.missing);
  const plane = story.plane(model!, source);
  const link = address({ source, models: [model!.name], focus: { model: model!.name, step } });
  const walk = walkOf(
    { model: model!.name, token: found.steps[step]!.token, link, words: found.source, scores: read.scores, weights: read.weights },
    plane instanceof Error ? null : plane,
  );
  return { found, step, words: wordsOf(walk), scores: [...walk.given!.scores], walk: { ...walk, temperature: choice.temperature } };
}

const ofStep = (story: Story, draw: (numbers: StepNumbers) => TemplateResult): TemplateResult =>
  story.cast.attention ? answered(story, stepOf(story), draw) : missing(story);

const steps = (story: Story, { found, step }: StepNumbers): TemplateResult =>
  choices(story.texts.translation, tokensOf(found), step, story.cast.attention!.target, (place) => story.change({ step: place }));

const score = (story: Story): TemplateResult =>
  ofStep(story, (numbers) => html`${steps(story, numbers)}
    ${barTable({ word: story.texts.word, value: story.texts.score }, numbers.words, numbers.scores, few, story.cast.attention!.source)}`);

function softmax(story: Story): TemplateResult {
  const { texts, choice, cast, change } = story;
  return ofStep(story, (numbers) => html`
    ${temperatureSlider("story-temperature", texts.temperature, choice.temperature, (temperature) => change({ temperature }))}
    ${barTable({ word: texts.word, value: texts.weight, sum: texts.sum }, numbers.words, weightsOf(numbers), share, cast.attention!.source)}`);
}

const weightsOf = ({ scores, walk }: StepNumbers): number[] => NORMALIZERS["softmax"]!.weights(scores, walk.temperature);

function contextFigure(story: Story): TemplateResult {
  const { texts } = story;
  return ofStep(story, (numbers) => {
    const { walk } = numbers;
    const share = walk.given!.share;
    const isExample = share === null && story.plane(story.cast.attention!, story.sentences[0]!) instanceof Error;
    if (share === null && !isExample) return html`<p class="note" aria-busy="true">${texts.waiting}</p>`;
    const keys = isExample ? walkDefaults().keys : walk.keys;
    const words = isExample ? wordsOf(walkDefaults()) : numbers.words;
    const weights = isExample ? selfWeights(keys, null, walk.temperature)[numbers.step % keys.length]! : weightsOf(numbers);
    return html`<walk-plane .words=${words} .keys=${keys} .weights=${weights} .context=${context(weights, keys)} .isFixed=${true}
        .reach=${reachOf([...keys, ...partialSums(weights, keys)])}></walk-plane>
      <div class="line"><button type="button" class="main" @click=${(event: Event) => {
        (event.currentTarget as Element).closest("figure")!.querySelector<WalkPlane>("walk-plane")!.play();
      }}>${texts.contextAdd}</button>
      <small>${isExample ? texts.example : filled(texts.contextShare, { share: fixed(100 * share!, 0) })}</small></div>`;
  });
}

// 6 and 7

const EXAMPLE = { words: wordsOf(walkDefaults()), vectors: walkDefaults().keys };

/** A map of one sentence onto itself or its source, where a row can be chosen. */
function map(name: string, rows: readonly string[], columns: readonly string[], weights: readonly (readonly number[])[], languages: Languages, row: number | null): TemplateResult {
  return html`<heat-map .model=${name} .source=${columns} .target=${rows} .weights=${weights} .languages=${languages} .isFixed=${true}
    .focusStep=${row}></heat-map>`;
}

function selfFigure(story: Story): TemplateResult {
  const { cast: { transformer: model }, texts, choice, change, sentences } = story;
  const draw = (name: string, words: readonly string[], weights: readonly (readonly number[])[], language: string, note: TemplateResult | typeof nothing): TemplateResult => {
    const word = Math.min(choice.word, words.length - 1);
    const most = largest(weights[word]!);
    return html`<div @focus-step=${chosenBy((place) => change({ word: place }))}>
        ${choices(texts.selfTry, words, word, language, (place) => change({ word: place }))}
        ${map(name, words, words, weights, { source: language, target: language }, word)}</div>
      <p class="reads" aria-live="polite">${filled(texts.selfReads, { word: words[word]!, most: words[most]!, weight: share(weights[word]![most]!) })}</p>${note}`;
  };
  const found = model && story.selfAttention(model, sentences[0]!);
  if (model && found === null) return html`<p class="note" aria-busy="true">${texts.waiting}</p>`;
  if (!model || found === null || found instanceof Error || found.encoder.length === 0) {
    return draw("example", EXAMPLE.words, selfWeights(EXAMPLE.vectors, null), "en", exampleNote(story));
  }
  return draw(model.name, found.source_tokens, meanOf(found.encoder[0]!), model.source, nothing);
}

/** The vectors of the worked example. */
const exampleNote = ({ texts }: Story): TemplateResult => html`<p class="note">${texts.example}
  ${EXAMPLE.words.map((word, j) => html`<span class="vector-of">${word} = (${EXAMPLE.vectors[j]!.map((each) => fixed(each, 1)).join(", ")})</span> `)}</p>`;

function headsFigure(story: Story): TemplateResult {
  const { cast: { heads: model }, texts, choice, change, sentences } = story;
  const ignore = chosenBy(() => undefined);
  if (!model) {
    const head = choice.head % 2;
    return html`${choices(texts.headsTry, [1, 2].map((number) => filled(texts.head, { number })), head, "", (place) => change({ head: place }))}
      <div @focus-step=${ignore}>${map("example", EXAMPLE.words, EXAMPLE.words, selfWeights(EXAMPLE.vectors, head), { source: "en", target: "en" }, null)}</div>${exampleNote(story)}`;
  }
  const places = placesOf(model);
  const head = Math.min(choice.head, places.length - 1);
  const names = places.map(({ layer, head: number }) => filled(texts.layerHead, { layer: layer + 1, number: number + 1 }));
  return html`${choices(texts.headsTry, names, head, "", (place) => change({ head: place }))}
    ${answered(story, story.decoded(model, sentences[0]!), (found) => html`<div @focus-step=${ignore}>${map(model.name, tokensOf(found), found.source,
      found.steps.map((step) => reading(step, places[head]!)!.weights), { source: model.source, target: model.target }, null)}</div>`)}`;
}

const placesOf = (model: ModelInfo): { layer: number; head: number }[] =>
  model.heads.flatMap((count, layer) => upTo(count).map((head) => ({ layer, head })));

const modelLink = (model: ModelInfo | null, patch: Partial<State>): string | null => (model ? address({ models: [model.name], ...patch }) : null);

function stepLink(story: Story, ofNumbers: (numbers: StepNumbers) => string): string | null {
  const numbers = story.cast.attention && stepOf(story);
  return numbers && !(numbers instanceof Error) ? ofNumbers(numbers) : null;
}

const walkLink = (story: Story): string | null => stepLink(story, ({ walk }) => address({ tab: "walk", walk }));

export const SCREENS: readonly Screen[] = [
  { name: "vector", figure: vector, link: ({ cast, sentences, choice }) => modelLink(cast.vector, { source: sentences[choice.sentence]! }) },
  {
    name: "breaks", figure: breaks,
    link: ({ cast: { attention, vector: fixedModel }, choice }) => {
      const models = [attention, fixedModel].filter((each) => each !== null);
      return modelLink(models[0] ?? null, { models: models.map((each) => each.name), source: models[0]?.examples[choice.length]?.source ?? "" });
    },
  },
  { name: "score", figure: score, link: (story) => stepLink(story, ({ walk }) => walk.given!.link) },
  { name: "softmax", figure: softmax, link: walkLink },
  { name: "context", figure: contextFigure, link: walkLink },
  { name: "self", figure: selfFigure, link: ({ cast, sentences }) => modelLink(cast.transformer, { source: sentences[0]! }) },
  {
    name: "heads", figure: headsFigure,
    link: ({ cast, sentences, choice }) => modelLink(cast.heads, { source: sentences[0]!, ...(cast.heads && placesOf(cast.heads)[choice.head]) }),
  },
];
