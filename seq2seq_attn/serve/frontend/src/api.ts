/** The server's endpoints and the records that they exchange; docs/serving.md describes them. */

import { readEvents, type ServerEvent } from "./events.ts";

export interface Example {
  source: string;
  target: string;
  links: [number, number][] | null; // gold, between words; null if the test set has none
}

export interface ModelInfo {
  name: string;
  source: string; // language codes
  target: string;
  kind: string;
  reads?: string; // text, or the kind of a source that is a file; without a server, always text
  sample_rate?: number | null; // of the recordings that it reads; null: none
  parameters: number;
  heads: number[]; // of each layer that attends; empty without attention weights
  max_length: number;
  search: { beam_size: number; length_penalty: number };
  normalizers?: string[]; // that can replace its own; none without weights from scores, or without a server
  examples: Example[];
  glosses?: Record<string, string>; // English, of the words that have one
}

/** How one layer reads the source at a step; the lists are by head, then by source token. */
export interface LayerReading {
  weights: number[][];
  scores: (number | null)[][] | null;
  contributions: number[][];
}

export interface Step {
  token: string;
  log_probability: number;
  weights: number[] | null; // mean over layers and heads
  layers: LayerReading[];
  likely: { token: string; probability: number }[];
}

export interface Intervention {
  replace: "weights" | "mean" | "sentence" | "nothing" | "temperature" | "normalizer";
  step: number | null; // null: every step
  layer: number | null;
  head: number | null;
  weights?: number[];
  other?: string;
  temperature?: number;
  normalizer?: string | { name: string };
}

/** What a source that is not text looks and sounds like. */
export interface SeenRecord {
  picture: string; // the address of an image, which contains it
  shape: [height: number, width: number];
  grid: number; // rows of states
  positions: number;
  seconds: number | null;
  sound: string | null;
}

/** A word of the source that is read otherwise than it is written. */
export interface ReadAs {
  word: string;
  place: number; // in the sentence, from 0
  tokens: string[]; // `<unk>` for one that is not in the vocabulary
  suggestions: string[]; // in place of an unknown word
}

/** A translation with its steps; `text` and `log_probability` grow while it is decoded. */
export interface Decoded {
  source: string[]; // labels of the tokens: `WORD (<unk>)` for an unknown one
  read_as: ReadAs[];
  seen?: SeenRecord;
  text: string;
  log_probability: number;
  steps: Step[];
}

export interface Hypothesis {
  text: string;
  tokens: string[];
  log_probability: number;
  score: number;
}

/** A training pair that is near, or a step in which the model predicts its target. */
export interface Neighbor {
  distance: number;
  line: number; // of the training text, from 1
  source: string;
  target: string;
  step: number | null; // null: sources were compared
  tokens: string[] | null; // of the target, for a step
}

/** What a head reads of each source token, in the plane of the two largest principal components. */
export interface ValuePlane {
  source: string[];
  points: [number, number][];
  share: number; // of the variance, that the plane shows
}

/** Self-attention weights of the encoder by layer, head, query and key. */
export interface SelfAttention {
  encoder: number[][][][]; // empty without
  source_tokens: string[];
}

/** The body of a request for neighbors of a source or, with a step, of that step after the tokens of `target`. */
export interface NeighborsRequest {
  model: string;
  source: string | string[];
  target?: string[];
  step?: number;
  most: number;
}

/** A sentence as one vector. */
export interface SentenceVector {
  source: string[];
  vector: number[]; // C
  every_step: boolean; // whether every step reads it, or the first state alone
  changes: number[]; // how far C moves when a token is exchanged, as a share of its length; of each but </s>
}

/** The body of a request for steps. */
export interface StepsRequest {
  model: string;
  source: string | string[]; // text, or tokens by hand
  prefix?: string | string[];
  interventions?: Intervention[];
  beam_size?: number;
  n_best?: number;
  length_penalty?: number;
  temperature?: number;
  top_p?: number;
  seed?: number;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter: number | null = null, // seconds
  ) {
    super(message);
  }
}

/** Any failure as one that the page shows; one of another kind has status 500. */
export const asApiError = (error: unknown): ApiError => (error instanceof ApiError ? error : new ApiError(500, String(error)));

const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";

const BROKEN = "the connection to the server broke off";
const brokenOff = (error: unknown): unknown => (isAbort(error) ? error : new ApiError(0, BROKEN));

/** The events of an answer. */
async function* eventsOf(answer: Response): AsyncGenerator<ServerEvent> {
  try {
    yield* readEvents(answer.body!);
  } catch (error) {
    throw brokenOff(error);
  }
}

export class Api {
  key = ""; // sent if the server asks for one
  readonly isServer: boolean = true; // it has the training text

  async models(): Promise<ModelInfo[]> {
    return (await this.values<{ models: ModelInfo[] }>("v1/models")).models;
  }

  /** All steps, with interventions if there are any. */
  steps(request: StepsRequest, signal: AbortSignal): Promise<Decoded> {
    const { interventions, ...plain } = request;
    return interventions?.length ? this.values("v1/intervene", request, signal) : this.values("v1/steps", plain, signal);
  }

  async hypotheses(request: StepsRequest, signal: AbortSignal): Promise<Hypothesis[]> {
    return (await this.values<{ hypotheses: Hypothesis[] }>("v1/hypotheses", request, signal)).hypotheses;
  }

  async neighbors(request: NeighborsRequest, signal: AbortSignal): Promise<Neighbor[]> {
    return (await this.values<{ neighbors: Neighbor[] }>("v1/neighbors", request, signal)).neighbors;
  }

  plane(request: { model: string; source: string | string[]; layer: number; head: number }, signal: AbortSignal): Promise<ValuePlane> {
    return this.values("v1/plane", request, signal);
  }

  selfAttention(model: string, source: string, signal: AbortSignal): Promise<SelfAttention> {
    return this.values("v1/attention", { model, source, heads: true }, signal);
  }

  vector(request: { model: string; source: string | string[] }, signal: AbortSignal): Promise<SentenceVector> {
    return this.values("v1/vector", request, signal);
  }

  /** The translation after every token that is decoded. */
  async *stream(request: StepsRequest, signal: AbortSignal): AsyncGenerator<Decoded> {
    const answer = await this.send("v1/stream", request, signal);
    let isWhole = false;
    let found: Decoded = { source: [], read_as: [], text: "", log_probability: 0, steps: [] };
    for await (const { name, data } of eventsOf(answer)) {
      const values = data as Pick<Decoded, "source" | "read_as" | "seen" | "text" | "log_probability"> & { error: string } & Step;
      if (name === "error") throw new ApiError(503, values.error); // a mistake in the request is refused before
      if (name === "start") {
        found = { ...found, source: values.source, read_as: values.read_as, ...(values.seen && { seen: values.seen }) };
      }
      if (name === "step") {
        const { text, ...step } = values;
        found = {
          ...found,
          text,
          log_probability: found.log_probability + step.log_probability,
          steps: [...found.steps, step],
        };
      }
      isWhole = name === "end";
      if (isWhole) found = { ...found, text: values.text, log_probability: values.log_probability };
      yield found;
    }
    if (!isWhole) throw new ApiError(0, BROKEN);
  }

  private async values<Values>(path: string, body?: object, signal?: AbortSignal): Promise<Values> {
    const answer = await this.send(path, body, signal);
    return answer.json().catch((error: unknown) => Promise.reject(brokenOff(error))) as Promise<Values>;
  }

  private async send(path: string, body?: object, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = body ? { "content-type": "application/json" } : {};
    if (this.key) headers["authorization"] = `Bearer ${this.key}`;
    const answer = await fetch(path, {
      method: body ? "POST" : "GET",
      headers,
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    }).catch((error: unknown) => {
      if (isAbort(error)) throw error;
      throw new ApiError(0, "the server does not answer; is it still running?");
    });
    if (answer.ok) return answer;
    const problem = (await answer.json().catch(() => null)) as { error?: string } | null;
    const retryAfter = Number(answer.headers.get("retry-after")) || null;
    throw new ApiError(answer.status, problem?.error ?? `the server answered with status ${answer.status}`, retryAfter);
  }
}

/** Who answers the page: the server, or in a file of its own the page itself. */
export type Answers = Pick<Api, keyof Api>;
