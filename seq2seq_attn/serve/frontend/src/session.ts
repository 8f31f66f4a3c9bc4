/** What the server answered for a state: for each model the translation, and the one after a user's changes. */

import {
  type Answers,
  ApiError,
  type Decoded,
  type Hypothesis,
  type ModelInfo,
  type Neighbor,
  type NeighborsRequest,
  type SentenceVector,
  type StepsRequest,
  type ValuePlane,
} from "./api.ts";
import { pauseAfter } from "./retry.ts";
import { lineOf } from "./sent-files.ts";
import { isEdited, NO_EDIT, type Edit, type State } from "./state.ts";

const SAMPLES = 5;

/** One question to the server at a time; of those that come meanwhile, the last is asked next. */
export class Line {
  private key = "";
  private running: AbortController | null = null;
  private waiting: (() => void) | null = null;

  /** Runs the work unless it is the same as before. `hurry` breaks off what runs, instead of waiting for it. */
  ask(key: string, hurry: boolean, work: (signal: AbortSignal) => Promise<void>): void {
    if (key === this.key) return;
    this.key = key;
    const start = (): void => {
      const control = new AbortController();
      this.running = control;
      this.waiting = null;
      void work(control.signal).finally(() => {
        if (this.running !== control) return;
        this.running = null;
        this.waiting?.();
      });
    };
    if (hurry) this.running?.abort();
    if (hurry || !this.running) start();
    else this.waiting = start;
  }

  stop(): void {
    this.key = "";
    this.waiting = null;
    this.running?.abort();
    this.running = null;
  }
}

type Question = "base" | "changed" | "hypotheses";
const QUESTIONS: readonly Question[] = ["base", "changed", "hypotheses"];

/** Why there is no answer, and the seconds until the page asks again; null: not by itself. */
export interface Failure {
  error: ApiError;
  pause: number | null;
}

/** What was asked last, and how that went. */
class Asked {
  readonly line = new Line();
  key = "";
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
  edit: Edit = NO_EDIT;
  source: string | string[] = ""; // that `current` translates
  private readonly asked = { base: new Asked(), changed: new Asked(), hypotheses: new Asked() };
  private readonly answers = { base: "", changed: "" }; // the sentence and search that were answered
  state: State | null = null; // for which was asked
  private attempts = 0; // in a row, to ask again
  private timer: ReturnType<typeof setTimeout> | undefined;

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
    return QUESTIONS.map((name) => this.asked[name].failure).find((each) => each !== null) ?? null;
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
    return this.answers[name] !== this.asked.base.key;
  }

  /** Asks for what the state needs and is not there yet. */
  sync(state: State): void {
    this.state = state;
    const line = lineOf(this.info, state.source);
    if (!line?.trim()) return this.stop();
    const request = { model: this.info.name, source: line, ...searchOf(state, this.info) };
    this.edit = state.edits[this.info.name] ?? NO_EDIT;
    const key = JSON.stringify(request);
    this.ask("base", key, true, async (signal) => {
      for await (const found of this.api.stream(request, signal)) {
        if (found.steps.length === 0) continue; // until its first step, the answer before stays
        this.base = found;
        this.answers.base = key;
        this.arrived("base");
      }
    });
    const { prefix, interventions, source = line } = this.edit;
    this.source = source;
    const edited = { ...request, source, prefix, interventions };
    const editedKey = isEdited(this.edit) ? JSON.stringify(edited) : "";
    if (editedKey) {
      this.ask("changed", editedKey, false, async (signal) => {
        this.changed = await this.api.steps(edited, signal);
        this.answers.changed = key;
      });
    } else {
      this.leave("changed");
      this.changed = null;
    }
    this.askForHypotheses(state, editedKey ? edited : request, editedKey || key);
  }

  /** Asks again for what failed. */
  again(state: State | null = this.state): void {
    clearTimeout(this.timer);
    const failed = QUESTIONS.filter((name) => this.asked[name].failure);
    if (failed.length > 0) this.attempts += 1;
    for (const name of failed) this.asked[name].line.stop();
    if (state) this.sync(state);
  }

  stop(): void {
    for (const name of QUESTIONS) this.leave(name);
    [this.base, this.changed, this.hypotheses] = [null, null, []];
    clearTimeout(this.timer);
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

  private askForHypotheses(state: State, request: StepsRequest, key: string): void {
    const count = state.temperature === null ? (state.beam ?? this.info.search.beam_size) : SAMPLES;
    if (count === 1) {
      this.leave("hypotheses");
      this.hypotheses = [];
      return;
    }
    this.ask("hypotheses", key, false, async (signal) => {
      this.hypotheses = await this.api.hypotheses({ ...request, n_best: count }, signal);
    });
  }

  /** Asks in the question's line. A failure is shown until there is an answer, or something else is asked. */
  private ask(name: Question, key: string, hurry: boolean, task: (signal: AbortSignal) => Promise<void>): void {
    const asked = this.asked[name];
    if (asked.key !== key) [asked.key, asked.isAnswered, asked.failure] = [key, false, null];
    asked.line.ask(key, hurry, (signal) => this.work(name, signal, () => task(signal)));
  }

  private async work(name: Question, signal: AbortSignal, task: () => Promise<void>): Promise<void> {
    this.busy += 1;
    this.asked[name].isAnswered = false;
    try {
      await task();
      this.busy -= 1;
      if (!signal.aborted) this.arrived(name);
    } catch (error) {
      this.busy -= 1;
      if (signal.aborted) return;
      this.failed(name, error instanceof ApiError ? error : new ApiError(500, String(error)));
    }
  }

  private arrived(name: Question): void {
    [this.asked[name].isAnswered, this.asked[name].failure] = [true, null];
    this.attempts = 0;
    this.update();
  }

  private failed(name: Question, error: ApiError): void {
    const pause = pauseAfter(error, this.attempts + 1);
    this.asked[name].failure = { error, pause };
    if (pause !== null) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.again(), 1000 * pause);
    }
    this.update(error);
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
