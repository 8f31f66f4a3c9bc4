/** The answers of the server's endpoints, computed in the page by the models in the file. */

import { type Answers, ApiError, type Decoded, type Hypothesis, type ModelInfo, type Neighbor, type SelfAttention, type SentenceVector, type StepsRequest, type ValuePlane } from "../api.ts";
import { END } from "../format.ts";
import { Coder, EOS } from "./codec.ts";
import { Decoder } from "./decoder.ts";
import { type ModelFile, models } from "./file.ts";
import { Graphs } from "./graphs.ts";
import { type Options, search } from "./search.ts";

/** A model with its graphs, which are loaded when they are first needed. */
class Model {
  readonly source: Coder;
  readonly target: Coder;
  private loading: Promise<Graphs> | null = null;

  constructor(readonly file: ModelFile) {
    this.source = new Coder(file.codecs.source);
    this.target = new Coder(file.codecs.target);
  }

  graphs(): Promise<Graphs> {
    return (this.loading ??= Graphs.load(this.file));
  }

  /** The ids of a sentence, which is text or tokens, `</s>` last. ApiError: more than the model reads, or an unknown token. */
  ids(given: string | readonly string[]): number[] {
    const isText = typeof given === "string";
    const tokens = isText ? this.source.pieces(given) : given;
    if (tokens.length === 0) throw new ApiError(400, "a blank sentence has no steps; give one with text");
    const unknown = isText ? undefined : tokens.find((token) => this.source.id(token) === undefined);
    if (unknown !== undefined) throw new ApiError(400, `source: '${unknown}' is not in this model's vocabulary; <unk> stands for one`);
    const most = this.file.about.max_length;
    if (tokens.length > most) throw new ApiError(400, `source: ${tokens.length} tokens; at most ${most} are translated, so split it`);
    return [...this.source.encode(tokens), EOS];
  }

  /** What these tokens are called, `</s>` last. */
  labels(given: string | readonly string[]): string[] {
    return [...(typeof given === "string" ? this.source.labels(given) : given), END];
  }

  prefix(given: string | string[]): number[] {
    return (typeof given === "string" ? this.target.pieces(given) : given).map((token) => {
      const id = this.target.id(token);
      if (id !== undefined) return id;
      throw new ApiError(400, `prefix: '${token}' is not in this model's vocabulary, or cannot begin a translation`);
    });
  }
}

/** What a request asks for. */
interface Question {
  model: Model;
  source: string[];
  decoder: Decoder;
  prefix: number[];
  options: Options; // for what follows the prefix
}

export class OfflineAnswers implements Answers {
  key = "";
  readonly isServer = false;
  private readonly byName = new Map(models().map((file) => [file.about.name, new Model(file)]));

  async models(): Promise<ModelInfo[]> {
    return [...this.byName.values()].map(({ file }) => file.about);
  }

  async steps(request: StepsRequest, signal: AbortSignal): Promise<Decoded> {
    let found: Decoded | null = null;
    for await (found of this.stream(request, signal));
    return found!;
  }

  async hypotheses(request: StepsRequest, signal: AbortSignal): Promise<Hypothesis[]> {
    const { model, decoder, prefix, options } = await this.asked(request, signal);
    const found = await search(decoder, prefix, options);
    return found.map(({ ids, isClosed, logProbability, score }) => {
      const all = [...prefix, ...ids, ...(isClosed ? [EOS] : [])];
      return { text: model.target.decode(all), tokens: all.map((id) => model.target.token(id)), log_probability: logProbability, score };
    });
  }

  async neighbors(): Promise<Neighbor[]> {
    throw new ApiError(400, "the training text is not in this file; seq2seq-attn serve finds neighbors");
  }

  async plane(): Promise<ValuePlane> {
    throw new ApiError(400, "the values are not an output of the models in this file; seq2seq-attn serve shows them");
  }

  async selfAttention(): Promise<SelfAttention> {
    throw new ApiError(400, "self-attention is not an output of the models in this file; seq2seq-attn serve shows it");
  }

  async vector(): Promise<SentenceVector> {
    throw new ApiError(400, "the vector of a sentence is not computed in this file; seq2seq-attn serve shows it");
  }

  async *stream(request: StepsRequest, signal: AbortSignal): AsyncGenerator<Decoded> {
    const { model, source, decoder, prefix, options } = await this.asked({ ...request, n_best: 1 }, signal);
    let given = prefix;
    let limit = prefix.length + options.limit;
    if (options.sampling || options.beamSize > 1) {
      const [best] = await search(decoder, prefix, options);
      given = [...prefix, ...best!.ids, EOS];
      limit = Math.min(limit, given.length);
    }
    const read_as = typeof request.source === "string" ? model.source.readAs(request.source) : [];
    let found: Decoded = { source, read_as, text: "", log_probability: 0, steps: [] };
    const ids: number[] = [];
    for await (const { id, step } of decoder.steps(given, limit, prefix.length + options.minLength, model.target)) {
      ids.push(id);
      found = {
        ...found,
        text: model.target.decode(ids),
        log_probability: found.log_probability + step.log_probability,
        steps: [...found.steps, step],
      };
      yield found;
    }
  }

  private async asked(request: StepsRequest, signal: AbortSignal): Promise<Question> {
    const model = this.byName.get(request.model);
    if (!model) throw new ApiError(400, `this file has no model ${request.model}`);
    const { file } = model;
    const ids = model.ids(request.source);
    const interventions = request.interventions ?? [];
    const others = [...new Set(interventions.flatMap(({ other }) => (other === undefined ? [] : [other])))];
    const graphs = await model.graphs();
    signal.throwIfAborted();
    const decoder = new Decoder(
      graphs,
      file.about.heads,
      file.start_token,
      ids,
      others.map((other) => model.ids(other)),
      interventions.map((each) => (each.other === undefined ? each : { ...each, row: 1 + others.indexOf(each.other) })),
      signal,
    );
    const prefix = model.prefix(request.prefix ?? []);
    return { model, source: model.labels(request.source), decoder, prefix, options: optionsOf(request, file, ids.length, prefix.length) };
  }
}

/** The options of a search after a prefix of `count` tokens. */
function optionsOf(request: StepsRequest, file: ModelFile, sourceLength: number, count: number): Options {
  const { search: initial } = file.about;
  const minLength = Math.max(1, initial.min_length - count);
  const byRatio = initial.max_length_ratio === null ? Infinity : initial.max_length_ratio * sourceLength + initial.max_length_margin - count;
  const { temperature, top_p: topP = 1, seed = 1 } = request;
  return {
    beamSize: request.beam_size ?? initial.beam_size,
    nBest: request.n_best ?? 1,
    minLength,
    limit: Math.max(minLength, Math.trunc(Math.min(initial.max_length - count, byRatio))),
    lengthPenalty: request.length_penalty ?? initial.length_penalty,
    lengthReward: initial.length_reward,
    sampling: temperature === undefined ? null : { temperature, topP, seed },
  };
}
