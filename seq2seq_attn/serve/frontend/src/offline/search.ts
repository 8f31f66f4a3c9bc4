/** Greedy search, beam search and sampling, as in seq2seq_attn/search. */

import { ApiError } from "../api.ts";
import { BOS, EOS, PAD } from "./codec.ts";
import type { Decoder } from "./decoder.ts";

export interface Options {
  beamSize: number;
  nBest: number;
  minLength: number;
  limit: number; // predicted tokens at most
  lengthPenalty: number; // alpha in log p / ((5 + |Y|) / 6)^alpha + gamma |Y|
  lengthReward: number; // gamma
  sampling: { temperature: number; topP: number; seed: number } | null;
}

interface Found {
  ids: number[]; // after the prefix, without `</s>`
  isClosed: boolean; // whether it ends in `</s>`
  logProbability: number;
  score: number;
}

/** ApiError: weights by hand led to logits that are not finite. */
export function logSoftmax(logits: Float32Array): Float64Array {
  const highest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = logits.reduce((total, each) => total + Math.exp(each - highest), 0);
  const found = Float64Array.from(logits, (each) => each - highest - Math.log(sum));
  if (!found.every(Number.isFinite)) throw new ApiError(400, "the predictions are no longer finite; give smaller weights");
  return found;
}

const mayStand = (id: number, mayEnd: boolean): boolean => id !== PAD && id !== BOS && (mayEnd || id !== EOS);

/** The most probable token, the lowest id in a tie. */
export function bestToken(logits: Float32Array, mayEnd: boolean): number {
  let best = -1;
  for (let id = 0; id < logits.length; id += 1) {
    if (mayStand(id, mayEnd) && (best < 0 || logits[id]! > logits[best]!)) best = id;
  }
  return best;
}

/** The ids of the highest values, the highest first. */
export function mostLikely(values: ArrayLike<number>, count: number): number[] {
  const best: number[] = [];
  for (let id = 0; id < values.length; id += 1) {
    if (best.length === count && values[id]! <= values[best[count - 1]!]!) continue;
    let place = best.length;
    while (place > 0 && values[best[place - 1]!]! < values[id]!) place -= 1;
    best.splice(place, 0, id);
    best.length = Math.min(best.length, count);
  }
  return best;
}

/** What ranks hypotheses of this length, or bounds the score of those that may become as long. */
const scoreOf = (total: number, length: number, { lengthPenalty, lengthReward }: Options): number =>
  total / ((5 + length) / 6) ** lengthPenalty + lengthReward * length;

/** The n best translations after a prefix, the best first, or n samples. */
export async function search(decoder: Decoder, prefix: readonly number[], options: Options): Promise<Found[]> {
  if (!options.sampling) return beamSearch(decoder, prefix, options);
  const found: Found[] = [];
  for (let number = 0; number < options.nBest; number += 1) found.push(await sample(decoder, prefix, options, number));
  return found;
}

/** seq2seq_attn/search/beam.py explains the rules by which it ends. */
async function beamSearch(decoder: Decoder, prefix: readonly number[], options: Options): Promise<Found[]> {
  const { beamSize, nBest, limit } = options;
  const ended: Found[] = [];
  const begin = await decoder.after(prefix);
  let { state } = begin;
  let tokens = [begin.token];
  let live: { ids: number[]; total: number }[] = [{ ids: [], total: 0 }];
  for (let length = 1; length <= limit; length += 1) {
    const end = (each: (typeof live)[number], total: number, isClosed: boolean): Found =>
      ({ ids: each.ids, isClosed, logProbability: total, score: scoreOf(total, length, options) });
    const { logits, after } = await decoder.step(tokens, state);
    const mayEnd = length >= options.minLength;
    const candidates = live.flatMap(({ total }, parent) => {
      const own = logSoftmax(logits[parent]!).map((each, id) => (mayStand(id, mayEnd) ? each : -Infinity));
      return mostLikely(own, 2 * beamSize).map((token) => ({ parent, token, total: total + own[token]! }));
    });
    // Of 2K candidates at most K are `</s>`, one per hypothesis, so at least K continue.
    const best = candidates
      .filter(({ total }) => total > -Infinity)
      .sort((a, b) => b.total - a.total || a.parent - b.parent || a.token - b.token)
      .slice(0, 2 * beamSize);
    const closed = best.slice(0, beamSize).filter(({ token }) => token === EOS);
    ended.push(...closed.map(({ parent, total }) => end(live[parent]!, total, true)));
    const kept = best.filter(({ token }) => token !== EOS).slice(0, beamSize);
    live = kept.map(({ parent, token, total }) => ({ ids: [...live[parent]!.ids, token], total }));
    const ranked = ended.map(({ score }) => score).sort((a, b) => b - a);
    const leader = live[0]?.total ?? -Infinity;
    const canWin = scoreOf(leader, limit, options) > (ranked[nBest - 1] ?? -Infinity);
    const isImprovable = ended.length < beamSize || scoreOf(leader, length, options) > (ranked[0] ?? -Infinity);
    if (!canWin || !isImprovable || length === limit) {
      const ends = ended.length > 0 ? ended : live.map((each) => end(each, each.total, false));
      return ends.sort((a, b) => b.score - a.score).slice(0, nBest);
    }
    state = decoder.select(after, kept.map(({ parent }) => parent));
    tokens = kept.map(({ token }) => token);
  }
  return [];
}

/** A translation drawn from the model; random numbers depend on the seed and on the number of the sample. */
async function sample(decoder: Decoder, prefix: readonly number[], options: Options, number: number): Promise<Found> {
  const { temperature, topP, seed } = options.sampling!;
  const random = randomNumbers(seed * 1009 + number);
  let { state, token } = await decoder.after(prefix);
  const ids: number[] = [];
  let total = 0;
  for (let length = 1; length <= options.limit && token !== EOS; length += 1) {
    const { logits, after } = await decoder.step([token], state);
    const own = logSoftmax(logits[0]!);
    token = draw(own, random(), temperature, topP, length >= options.minLength);
    total += own[token]!;
    state = after;
    ids.push(token);
  }
  const score = scoreOf(total, ids.length, options);
  const isClosed = ids.at(-1) === EOS;
  return { ids: isClosed ? ids.slice(0, -1) : ids, isClosed, logProbability: total, score };
}

/** The token into whose share of the (tempered, truncated) distribution a number in [0, 1) falls. */
function draw(logProbabilities: Float64Array, uniform: number, temperature: number, topP: number, mayEnd: boolean): number {
  const allowed = Array.from(logProbabilities.keys()).filter((id) => mayStand(id, mayEnd));
  const highest = Math.max(...allowed.map((id) => logProbabilities[id]!));
  const shares = allowed.map((id) => ({ id, share: Math.exp((logProbabilities[id]! - highest) / temperature) }));
  shares.sort((a, b) => b.share - a.share);
  const whole = shares.reduce((sum, { share }) => sum + share, 0);
  let before = 0;
  const nucleus = shares.filter(({ share }) => (before += share) - share < topP * whole);
  let rest = uniform * nucleus.reduce((sum, { share }) => sum + share, 0);
  return nucleus.find(({ share }) => (rest -= share) < 0)?.id ?? nucleus.at(-1)!.id;
}

/** Numbers in [0, 1) by a seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
