/** What the server answered for a state: for each model the translation, and the one after a user's changes. */

import {
  type Answers,
  ApiError,
  type Decoded,
  type Hypothesis,
  type ModelInfo,
  type Neighbor,
  type NeighborsRequest,
  type StepsRequest,
} from "./api.ts";
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

/** The translations by one model. */
export class Pane {
  base: Decoded | null = null;
  changed: Decoded | null = null; // null without an edit
  hypotheses: Hypothesis[] = []; // of the search that found `current`, if it keeps several
  busy = 0; // questions without an answer
  edit: Edit = NO_EDIT;
  source: string | string[] = ""; // that `current` translates
  private readonly lines = { base: new Line(), changed: new Line(), hypotheses: new Line() };
  private readonly errors = { base: "", changed: "", hypotheses: "" };

  constructor(
    readonly info: ModelInfo,
    private readonly api: Answers,
    private readonly update: (error?: ApiError) => void,
  ) {}

  get attends(): boolean {
    return this.info.heads.length > 0;
  }

  get hasServer(): boolean {
    return this.api.isServer;
  }

  get error(): string {
    return Object.values(this.errors).find((each) => each) ?? "";
  }

  /** The translation that the figures show. */
  get current(): Decoded | null {
    return this.changed ?? this.base;
  }

  /** Asks for what the state needs and is not there yet. */
  sync(state: State): void {
    const request = { model: this.info.name, source: state.source, ...searchOf(state) };
    if (!state.source.trim()) return this.stop();
    this.edit = state.edits[this.info.name] ?? NO_EDIT;
    const key = JSON.stringify(request);
    this.lines.base.ask(key, true, (signal) =>
      this.work("base", signal, async () => {
        this.base = null;
        for await (const found of this.api.stream(request, signal)) {
          this.base = found;
          this.update();
        }
      }),
    );
    const { prefix, interventions, source = state.source } = this.edit;
    this.source = source;
    const edited = { ...request, source, prefix, interventions };
    const editedKey = isEdited(this.edit) ? JSON.stringify(edited) : "";
    if (editedKey) {
      this.lines.changed.ask(editedKey, false, (signal) =>
        this.work("changed", signal, async () => {
          this.changed = await this.api.steps(edited, signal);
        }),
      );
    } else {
      this.leave("changed");
      this.changed = null;
    }
    this.askForHypotheses(state, editedKey ? edited : request, editedKey || key);
  }

  /** Asks again for what failed. */
  again(state: State): void {
    for (const name of ["base", "changed", "hypotheses"] as const) if (this.errors[name]) this.leave(name);
    this.sync(state);
  }

  stop(): void {
    for (const name of ["base", "changed", "hypotheses"] as const) this.leave(name);
    [this.base, this.changed, this.hypotheses] = [null, null, []];
  }

  private leave(name: keyof Pane["lines"]): void {
    this.lines[name].stop();
    this.errors[name] = "";
  }

  /** The nearest training pairs; ApiError with status 503 while the server reads them. */
  neighbors(request: Omit<NeighborsRequest, "model">, signal: AbortSignal): Promise<Neighbor[]> {
    return this.api.neighbors({ model: this.info.name, ...request }, signal);
  }

  private askForHypotheses(state: State, request: StepsRequest, key: string): void {
    const count = state.temperature === null ? state.beam : SAMPLES;
    if (count === 1) {
      this.leave("hypotheses");
      this.hypotheses = [];
      return;
    }
    this.lines.hypotheses.ask(key, false, (signal) =>
      this.work("hypotheses", signal, async () => {
        this.hypotheses = await this.api.hypotheses({ ...request, n_best: count }, signal);
      }),
    );
  }

  private async work(name: keyof Pane["lines"], signal: AbortSignal, task: () => Promise<void>): Promise<void> {
    this.busy += 1;
    this.errors[name] = "";
    try {
      await task();
      this.busy -= 1;
      this.update();
    } catch (error) {
      this.busy -= 1;
      if (signal.aborted) return;
      const known = error instanceof ApiError ? error : new ApiError(0, String(error));
      this.errors[name] = known.message;
      this.update(known);
    }
  }
}

/** The options of the search, as the endpoints name them. */
export function searchOf(state: State): Partial<StepsRequest> {
  if (state.temperature === null) {
    return { beam_size: state.beam, ...(state.beam > 1 && { length_penalty: state.penalty }) };
  }
  return {
    temperature: state.temperature,
    seed: state.seed,
    ...(state.topP < 1 && { top_p: state.topP }),
  };
}
