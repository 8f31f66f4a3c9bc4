/** What the server answered for a state: for each model the translation, and the one after a user's changes. */

import {
  type Answers,
  type ApiError,
  type Decoded,
  type Hypothesis,
  type ModelInfo,
  type Neighbor,
  type NeighborsRequest,
  type SentenceVector,
  type StepsRequest,
  type ValuePlane,
} from "./api.ts";
import { answerTo, type Failure } from "./retry.ts";
import { lineOf } from "./sent-files.ts";
import { isEdited, NO_EDIT, type Edit, type State } from "./state.ts";

const SAMPLES = 5;

/** One question to the server at a time; of those that come meanwhile, the last is asked next. */
export class Line {
  key = ""; // of the last question
  private work: (signal: AbortSignal) => Promise<void> = () => Promise.resolve();
  private running: AbortController | null = null;
  private isWaiting = false; // whether the last question is, for the end of what runs

  /** Runs the work unless it is the same as before. `hurry` breaks off what runs, instead of waiting for it. */
  ask(key: string, hurry: boolean, work: (signal: AbortSignal) => Promise<void>): void {
    if (key === this.key) return;
    [this.key, this.work] = [key, work];
    if (hurry || !this.running) this.again();
    else this.isWaiting = true;
  }

  /** Asks the last question, in place of what runs. */
  again(): void {
    this.running?.abort();
    const control = new AbortController();
    [this.running, this.isWaiting] = [control, false];
    void this.work(control.signal).finally(() => {
      if (this.running !== control) return;
      this.running = null;
      if (this.isWaiting) this.again();
    });
  }

  stop(): void {
    this.running?.abort();
    [this.key, this.running, this.isWaiting] = ["", null, false];
  }
}

const QUESTIONS = ["base", "changed", "hypotheses"] as const;
type Question = (typeof QUESTIONS)[number];

/** What was asked last, and how that went. */
class Asked {
  readonly line = new Line();
  failure: Failure | null = null;
  isAnswered = true;
}

/** The translations by one model. What was answered stays until the next answer begins to arrive. */
export class Pane {
  base: Decoded | null = null;
  changed: Decoded | null = null; // null without an edit
  hypotheses: Hypothesis[] = []; // of the search that found `current`, if it keeps several
  readonly glosses: ReadonlyMap<string, string>; // English, of tokens
  busy = 0; // questions without an answer
  private readonly asked = { base: new Asked(), changed: new Asked(), hypotheses: new Asked() };
  private readonly answers = { base: "", changed: "" }; // the sentence and search that were answered
  state: State | null = null; // that was asked for

  constructor(
    readonly info: ModelInfo,
    private readonly api: Answers,
    private readonly update: (error?: ApiError) => void,
  ) {
    this.glosses = new Map(Object.entries(info.glosses ?? {}).filter(([, gloss]) => /\p{L}/u.test(gloss)));
  }

  get attends(): boolean {
    return this.info.heads.length > 0;
  }

  get hasServer(): boolean {
    return this.api.isServer;
  }

  get failure(): Failure | null {
    return Object.values(this.asked).find(({ failure }) => failure !== null)?.failure ?? null;
  }

  get edit(): Edit {
    return this.state?.edits[this.info.name] ?? NO_EDIT;
  }

  /** What is translated with the edit: a line, or tokens by hand. */
  get source(): string | string[] {
    return this.edit.source ?? (this.state && lineOf(this.info, this.state.source)) ?? "";
  }

  /** The translation that the figures show. */
  get current(): Decoded | null {
    return this.changed ?? this.base;
  }

  /** Whether a translation is not, or not yet, the answer to what was asked last. */
  isStale(name: "base" | "changed"): boolean {
    return !this.asked[name].isAnswered || this.isOutdated(name);
  }

  /** Whether a translation is of another sentence, or found by another search. */
  isOutdated(name: "base" | "changed" = this.changed ? "changed" : "base"): boolean {
    return this.answers[name] !== this.asked.base.line.key;
  }

  /** Asks for what the state needs and is not there yet. */
  sync(state: State): void {
    this.state = state;
    const line = lineOf(this.info, state.source);
    if (!line?.trim()) return this.stop();
    const request = { model: this.info.name, source: line, ...searchOf(state, this.info) };
    const key = JSON.stringify(request);
    this.ask("base", key, true, async (signal) => {
      for await (const found of this.api.stream(request, signal)) {
        signal.throwIfAborted();
        if (found.steps.length === 0) continue; // until its first step, the answer before stays
        [this.base, this.answers.base] = [found, key];
        this.arrived("base", key);
      }
    });
    const { prefix, interventions } = this.edit;
    const edited = { ...request, source: this.source, prefix, interventions };
    const editedKey = isEdited(this.edit) ? JSON.stringify(edited) : "";
    if (editedKey) {
      this.ask("changed", editedKey, false, async (signal) => {
        const found = await this.api.steps(edited, signal);
        signal.throwIfAborted();
        [this.changed, this.answers.changed] = [found, key];
      });
    } else {
      this.leave("changed");
      this.changed = null;
    }
    this.askForHypotheses(editedKey ? edited : request, editedKey || key);
  }

  /** Asks at once for what failed. */
  again(state: State): void {
    this.sync(state);
    for (const { line, failure } of Object.values(this.asked)) if (failure) line.again();
  }

  stop(): void {
    for (const name of QUESTIONS) this.leave(name);
    [this.base, this.changed, this.hypotheses] = [null, null, []];
  }

  private leave(name: Question): void {
    this.asked[name].line.stop();
    this.asked[name] = new Asked();
  }

  /** The nearest training pairs; ApiError with status 503 while the server reads them. */
  neighbors(request: Omit<NeighborsRequest, "model">, signal: AbortSignal): Promise<Neighbor[]> {
    return this.api.neighbors({ model: this.info.name, ...request }, signal);
  }

  /** What a head reads of the source, in a plane. */
  plane(layer: number, head: number, signal: AbortSignal): Promise<ValuePlane> {
    return this.api.plane({ model: this.info.name, source: this.source, layer, head }, signal);
  }

  /** The source as one vector. */
  vector(signal: AbortSignal): Promise<SentenceVector> {
    return this.api.vector({ model: this.info.name, source: this.source }, signal);
  }

  private askForHypotheses(request: StepsRequest, key: string): void {
    const count = request.beam_size ?? SAMPLES;
    if (count === 1) {
      this.leave("hypotheses");
      this.hypotheses = [];
      return;
    }
    this.ask("hypotheses", key, false, async (signal) => {
      const found = await this.api.hypotheses({ ...request, n_best: count }, signal);
      signal.throwIfAborted();
      this.hypotheses = found;
    });
  }

  /** Asks in the question's line. A failure is shown until there is an answer, or something else is asked. */
  private ask(name: Question, key: string, hurry: boolean, task: (signal: AbortSignal) => Promise<void>): void {
    const asked = this.asked[name];
    const isFailing = asked.failure !== null; // and pauses before it asks again
    if (asked.line.key !== key) [asked.isAnswered, asked.failure] = [false, null];
    asked.line.ask(key, hurry || isFailing, async (signal) => {
      const work = async (): Promise<true> => {
        this.busy += 1;
        asked.isAnswered = false;
        await task(signal).finally(() => (this.busy -= 1));
        return true;
      };
      const isDone = await answerTo(work, signal, (failure) => {
        if (asked.line.key !== key) return asked.line.again(); // another question waits
        asked.failure = failure;
        this.update(failure.error);
      });
      if (isDone) this.arrived(name, key);
    });
  }

  private arrived(name: Question, key: string): void {
    const asked = this.asked[name];
    if (asked.line.key === key) [asked.isAnswered, asked.failure] = [true, null]; // no other question waits
    this.update();
  }
}

/** The options of the search, as the endpoints name them; those that were not chosen are the model's own. */
export function searchOf(state: State, { search }: Pick<ModelInfo, "search">): Partial<StepsRequest> {
  if (state.temperature === null) {
    const beam = state.beam ?? search.beam_size;
    return { beam_size: beam, ...(beam > 1 && { length_penalty: state.penalty ?? search.length_penalty }) };
  }
  return {
    temperature: state.temperature,
    seed: state.seed,
    ...(state.topP < 1 && { top_p: state.topP }),
  };
}
