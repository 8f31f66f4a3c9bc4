/** Steps of one sentence, as in seq2seq_attn/analysis/stepwise.py: with interventions at some of them. */

import { Tensor } from "onnxruntime-web/wasm";
import { ApiError, type Intervention, type LayerReading, type Step } from "../api.ts";
import { sum } from "../numbers.ts";
import { type Coder, EOS, PAD } from "./codec.ts";
import { type Graphs, integers, row, select, type Tensors } from "./graphs.ts";
import { bestToken, logSoftmax, mostLikely } from "./search.ts";

const LIKELY = 10; // next tokens that a step lists

/** The state after some steps: N hypotheses of the sentence, then N of each other sentence. */
export interface State {
  tensors: Tensors;
  steps: number;
  hypotheses: number;
}

export interface Output {
  logits: Float32Array[]; // of each hypothesis of the sentence
  after: State;
  found: Tensors;
}

export class Decoder {
  private memory: { hypotheses: number; tensors: Tensors } = { hypotheses: 0, tensors: {} };
  private encoded: Tensors = {};
  private lastPause = performance.now();

  constructor(
    private readonly graphs: Graphs,
    private readonly heads: readonly number[], // of each layer that attends
    private readonly startToken: number,
    readonly source: readonly number[],
    private readonly others: readonly (readonly number[])[], // sentences whose contexts are read
    private readonly interventions: readonly (Intervention & { row?: number })[], // row: of `others`, from 1
    private readonly signal: AbortSignal,
  ) {
    this.check();
  }

  private get copies(): number {
    return 1 + this.others.length;
  }

  private get positions(): number {
    return Math.max(...[this.source, ...this.others].map((ids) => ids.length));
  }

  async start(): Promise<State> {
    const sentences = [this.source, ...this.others];
    const padded = sentences.flatMap((ids) => Array.from({ length: this.positions }, (_, i) => ids[i] ?? PAD));
    const lengths = sentences.map((ids) => ids.length);
    const source = integers(padded, [this.copies, this.positions]);
    this.encoded = await this.graphs.encoder.run({ source, lengths: integers(lengths, [this.copies]) });
    this.memory = { hypotheses: 0, tensors: {} };
    const rows = lengths.map((_, i) => i);
    return { tensors: select(this.encoded, this.graphs.state, rows), steps: 0, hypotheses: 1 };
  }

  /** The state after a prefix of ids, and the token to go on from. */
  async after(prefix: readonly number[]): Promise<{ state: State; token: number }> {
    let state = await this.start();
    let token = this.startToken;
    for (const next of prefix) {
      state = (await this.step([token], state)).after;
      token = next;
    }
    return { state, token };
  }

  /** One step of all hypotheses; every other sentence reads the same tokens. */
  async step(tokens: readonly number[], state: State): Promise<Output> {
    this.signal.throwIfAborted();
    await this.pause();
    const { hypotheses, steps } = state;
    const rows = hypotheses * this.copies;
    const everywhere = Array.from({ length: this.copies }, () => tokens).flat();
    const found = await this.graphs.step.run({
      tokens: integers(everywhere, [rows]),
      ...state.tensors,
      ...this.memoryOf(hypotheses),
      ...(this.graphs.further.length > 0 && this.changes(steps, hypotheses, rows)),
    });
    const tensors = Object.fromEntries(this.graphs.state.map((name) => [name, found[`next_${name}`]!]));
    const logits = Array.from({ length: hypotheses }, (_, i) => row(found["logits"]!, i));
    return { logits, after: { tensors, steps: steps + 1, hypotheses }, found };
  }

  /** The state with these hypotheses, in this order. */
  select(state: State, hypotheses: readonly number[]): State {
    const rows = Array.from({ length: this.copies }, (_, copy) =>
      hypotheses.map((each) => each + copy * state.hypotheses)).flat();
    return { ...state, tensors: select(state.tensors, this.graphs.state, rows), hypotheses: hypotheses.length };
  }

  /** The steps of the given tokens, then those of greedy search, until `</s>` or `limit`. */
  async *steps(given: readonly number[], limit: number, minLength: number, target: Coder): AsyncGenerator<{ id: number; step: Step }> {
    let state = await this.start();
    let token = this.startToken;
    for (let number = 0; number < limit; number += 1) {
      const { logits, after, found } = await this.step([token], state);
      const logProbabilities = logSoftmax(logits[0]!);
      token = given[number] ?? bestToken(logits[0]!, number + 1 >= minLength);
      const readsAnother = this.at(state.steps).some((each) => each.row !== undefined);
      const hasWeights = this.heads.length > 0 && !readsAnother;
      const likely = mostLikely(logProbabilities, LIKELY);
      const step = {
        token: target.token(token),
        log_probability: logProbabilities[token]!,
        weights: hasWeights ? this.cut(row(found["weights"]!, 0)) : null,
        layers: hasWeights ? this.readings(found) : [],
        likely: likely.map((id) => ({ token: target.token(id), probability: Math.exp(logProbabilities[id]!) })),
      };
      yield { id: token, step };
      if (token === EOS) return;
      state = after;
    }
  }

  private readings(found: Tensors): LayerReading[] {
    const rows = (name: string): number[][] => {
      const all = row(found[name]!, 0);
      return Array.from({ length: all.length / this.positions }, (_, head) =>
        this.cut(all.subarray(head * this.positions, (head + 1) * this.positions)));
    };
    const [weights, scores, contributions] = [rows("read"), rows("scores"), rows("contributions")];
    let first = 0;
    return this.heads.map((count) => {
      const own = <T>(all: T[]): T[] => all.slice(first, first + count);
      const finite = own(scores).map((head) => head.map((score) => (Number.isFinite(score) ? score : null)));
      const isKnown = !Number.isNaN(scores[first]![0]);
      const layer = { weights: own(weights), scores: isKnown ? finite : null, contributions: own(contributions) };
      first += count;
      return layer;
    });
  }

  private cut(values: Float32Array): number[] {
    return Array.from(values.subarray(0, this.source.length));
  }

  private memoryOf(hypotheses: number): Tensors {
    if (this.memory.hypotheses !== hypotheses) {
      const rows = Array.from({ length: this.copies }, (_, copy) => Array<number>(hypotheses).fill(copy)).flat();
      this.memory = { hypotheses, tensors: select(this.encoded, this.graphs.memory, rows) };
    }
    return this.memory.tensors;
  }

  private at(step: number): (Intervention & { row?: number })[] {
    return this.interventions.filter((each) => each.step === null || each.step === step);
  }

  /** The inputs for what replaces weights and contexts at a step; those of one head follow those of another in turn. */
  private changes(step: number, hypotheses: number, rows: number): Tensors {
    const heads = sum(this.heads);
    const { length } = this.source;
    const given = new Float32Array(rows * heads * this.positions);
    const isGiven = new Uint8Array(rows * heads);
    const isUniform = new Uint8Array(rows * heads);
    const reads = Array.from({ length: rows }, (_, i) => Array<number>(this.heads.length).fill(i));
    for (const each of this.at(step)) {
      let first = 0;
      this.heads.forEach((count, layer) => {
        if (each.layer === null || each.layer === layer) {
          for (let hypothesis = 0; hypothesis < hypotheses; hypothesis += 1) {
            if (each.row !== undefined) reads[hypothesis]![layer] = hypothesis + each.row * hypotheses;
            for (let head = 0; head < count; head += 1) {
              if (each.row !== undefined || (each.head !== null && each.head !== head)) continue;
              const place = hypothesis * heads + first + head;
              const own = given.subarray(place * this.positions, (place + 1) * this.positions);
              if (each.replace === "mean" && !isGiven[place]) isUniform[place] = 1;
              else {
                const mean = own.reduce((total, weight) => total + weight, 0) / length;
                own.set(each.replace === "weights" ? each.weights! : Array<number>(length).fill(each.replace === "mean" ? mean : 0));
                isGiven[place] = 1;
              }
            }
          }
        }
        first += count;
      });
    }
    return {
      given: new Tensor("float32", given, [rows, heads, this.positions]),
      is_given: new Tensor("bool", isGiven, [rows, heads]),
      is_uniform: new Tensor("bool", isUniform, [rows, heads]),
      reads: integers(reads.flat(), [rows, this.heads.length]),
    };
  }

  private check(): void {
    if (this.interventions.length > 0 && this.heads.length === 0) {
      throw new ApiError(400, "this model has no attention weights");
    }
    for (const { layer, head, replace, weights } of this.interventions) {
      if (layer !== null && !(layer in this.heads)) throw new ApiError(400, `this model has no layer ${layer}`);
      if (head !== null && head >= Math.min(...this.heads)) throw new ApiError(400, `this model has no head ${head}`);
      if (replace === "temperature" || replace === "normalizer") {
        throw new ApiError(400, `the ${replace} of attention needs a server: seq2seq-attn serve`);
      }
      if (replace === "weights" && weights?.length !== this.source.length) {
        throw new ApiError(400, `${weights?.length} weights for ${this.source.length} source tokens: give one for each, </s> included`);
      }
    }
  }

  /** Lets the browser draw and take input during a long search. */
  private async pause(): Promise<void> {
    if (performance.now() - this.lastPause < 30) return;
    await new Promise((resolve) => setTimeout(resolve));
    this.lastPause = performance.now();
    this.signal.throwIfAborted();
  }
}
