/** The scorers and normalizers of the package that have a closed form, for a query and keys of two numbers each. */

import { sum } from "./numbers.ts";

export type Vector = readonly number[];

/** Numbers that a scorer has beside query and key; matrices are listed row by row. */
export interface Parameter {
  name: string;
  rows: number; // 1: a vector or a single number
  columns: number;
  initial: Vector;
}

interface WalkScorer {
  equation: string;
  source: string;
  parameters: readonly Parameter[];
  score: (query: Vector, keys: readonly Vector[], parameters: readonly Vector[]) => number[];
}

const dot = (a: Vector, b: Vector): number => sum(a.map((each, i) => each * b[i]!));
const norm = (a: Vector): number => Math.sqrt(dot(a, a));
const added = (...vectors: readonly Vector[]): number[] => vectors[0]!.map((_, i) => sum(vectors.map((each) => each[i]!)));

/** A matrix, row by row, times a vector. */
function times(matrix: Vector, vector: Vector): number[] {
  const rows = matrix.length / vector.length;
  return Array.from({ length: rows }, (_, i) => dot(matrix.slice(i * vector.length, (i + 1) * vector.length), vector));
}

const tanh = (vector: Vector): number[] => vector.map(Math.tanh);

const matrix = (name: string, initial: Vector, columns = 2): Parameter => ({
  name, rows: initial.length / columns, columns, initial,
});
const vector = (name: string, initial: Vector): Parameter => ({ name, rows: 1, columns: initial.length, initial });

type Pairwise = (query: Vector, key: Vector, parameters: readonly Vector[]) => number;

/** A scorer that scores every key on its own. */
function pairwise(equation: string, source: string, parameters: readonly Parameter[], score: Pairwise): WalkScorer {
  return { equation, source, parameters, score: (query, keys, given) => keys.map((key) => score(query, key, given)) };
}

const W = matrix("W", [1, 0.5, -0.5, 1]);
const U = matrix("U", [1, 0, 0, 1]);
const V = vector("v", [1, 1]);
const B = vector("b", [0, 0]);

function unit(a: Vector): number[] {
  const length = norm(a);
  return a.map((each) => each / (length > 1e-8 ? length : 1));
}

const additive: Pairwise = (q, k, [w, u, b, v]) => dot(v!, tanh(added(times(w!, q), times(u!, k), b!)));

/** By the names that they have in a configuration. */
export const SCORERS: Readonly<Record<string, WalkScorer>> = {
  dot: pairwise("q · k", "Luong et al. 2015, dot", [], (q, k) => dot(q, k)),
  scaled_dot: pairwise("q · k / √d", "Vaswani et al. 2017, eq. 1", [], (q, k) => dot(q, k) / Math.sqrt(k.length)),
  general: pairwise("q · W k", "Luong et al. 2015, general", [W], (q, k, [w]) => dot(q, times(w!, k))),
  multiplicative: pairwise("W q · U k", "Britz et al. 2017, eq. 7", [W, U], (q, k, [w, u]) => dot(times(w!, q), times(u!, k))),
  biaffine: pairwise(
    "q · U k + u · q + w · k + b", "Dozat & Manning 2017, eq. 3",
    [U, vector("u", [0.5, 0]), vector("w", [0, 0.5]), vector("b", [0])],
    (q, k, [u, uq, wk, b]) => dot(q, times(u!, k)) + dot(uq!, q) + dot(wk!, k) + b![0]!,
  ),
  cosine: pairwise("q · k / (|q| |k| τ)", "Graves et al. 2014, eq. 5 and 6", [vector("τ", [0.5])], (q, k, [t]) => dot(unit(q), unit(k)) / t![0]!),
  negative_squared_distance: pairwise("−|q − k|² / τ", "Kim et al. 2021", [vector("τ", [1])], (q, k, [t]) => {
    const difference = added(q, k.map((each) => -each));
    return -dot(difference, difference) / t![0]!;
  }),
  additive: pairwise("v · tanh(W q + U k + b)", "Bahdanau et al. 2015, A.1.2", [W, U, B, V], additive),
  concat: pairwise(
    "v · tanh(W [q; k])", "Luong et al. 2015, concat", [matrix("W", [1, 0.5, 1, 0, -0.5, 1, 0, 1], 4), V],
    (q, k, [w, v]) => dot(v!, tanh(times(w!, [...q, ...k]))),
  ),
  normalized_additive: pairwise(
    "g v / |v| · tanh(W q + U k + b) + r", "Raffel et al. 2017, eq. 16", [W, U, B, V, vector("g", [2]), vector("r", [0])],
    (q, k, [w, u, b, v, g, r]) => (g![0]! / norm(v!)) * additive(q, k, [w!, u!, b!, v!]) + r![0]!,
  ),
  mlp: pairwise(
    "v · tanh(W₂ tanh(W q + U k + b) + b₂)", "Bahdanau et al. 2015, sec. 3.1",
    [W, U, B, matrix("W₂", [1, -0.5, 0.5, 1]), vector("b₂", [0, 0]), V],
    (q, k, [w, u, b, w2, b2, v]) => dot(v!, tanh(added(times(w2!, tanh(added(times(w!, q), times(u!, k), b!))), b2!))),
  ),
  location: {
    equation: "w_j · q at position j",
    source: "Luong et al. 2015, eq. 8",
    parameters: [matrix("W", [1, 0, 0, 1, -1, 0, 0, -1])],
    score: (query, keys, [w]) => times(w!, query).slice(0, keys.length),
  },
};

interface WalkNormalizer {
  equation: string;
  weights: (scores: Vector, temperature: number) => number[];
  hasTemperature?: boolean;
}

/** By the names that they have in a configuration. */
export const NORMALIZERS: Readonly<Record<string, WalkNormalizer>> = {
  softmax: { equation: "a_j = exp(e_j / τ) / Σ_k exp(e_k / τ)", weights: softmax, hasTemperature: true },
  sparsemax: { equation: "a_j = max(e_j − τ, 0), Σ_j a_j = 1", weights: sparsemax },
  entmax15: { equation: "a_j = max(e_j / 2 − τ, 0)², Σ_j a_j = 1", weights: entmax15 },
  sigmoid: { equation: "a_j = 1 / (1 + exp(−e_j))", weights: (scores) => scores.map((e) => 1 / (1 + Math.exp(-e))) },
  hard: { equation: "a_j = [j = argmax_k e_k]", weights: (scores) => scores.map((_, j) => Number(j === scores.indexOf(Math.max(...scores)))) },
};

function softmax(scores: Vector, temperature: number): number[] {
  const most = Math.max(...scores);
  const parts = scores.map((e) => Math.exp((e - most) / temperature));
  const all = sum(parts);
  return parts.map((part) => part / all);
}

/** The projection onto the simplex: the threshold τ is that of the k highest scores, for the largest k above it. */
function sparsemax(scores: Vector): number[] {
  const ordered = [...scores].sort((a, b) => b - a);
  let [total, threshold] = [0, 0];
  ordered.forEach((e, i) => {
    total += e;
    if (1 + (i + 1) * e > total) threshold = (total - 1) / (i + 1);
  });
  return scores.map((e) => Math.max(e - threshold, 0));
}

/** As sparsemax, with τ = M − √((1 − D) / k), M the mean of the k highest halves and D the sum of their squared deviations. */
function entmax15(scores: Vector): number[] {
  const halves = scores.map((e) => (e - Math.max(...scores)) / 2);
  const ordered = [...halves].sort((a, b) => b - a);
  let threshold = -1;
  for (let k = 1; k <= ordered.length; k++) {
    const top = ordered.slice(0, k);
    const mean = sum(top) / k;
    const deviations = sum(top.map((each) => (each - mean) ** 2));
    const own = mean - Math.sqrt(Math.max(0, (1 - deviations) / k));
    if (own <= ordered[k - 1]!) threshold = own;
  }
  return halves.map((e) => Math.max(e - threshold, 0) ** 2);
}

/** C = Σ_j a_j v_j. */
export const context = (weights: Vector, values: readonly Vector[]): number[] =>
  values[0]!.map((_, i) => sum(weights.map((weight, j) => weight * values[j]![i]!)));

/** 0, a_1 v_1, a_1 v_1 + a_2 v_2, ...: where the arrows a_j v_j begin and end when they are put head to tail; the last is C. */
export function partialSums(weights: Vector, values: readonly Vector[]): number[][] {
  const sums = [values[0]!.map(() => 0)];
  values.forEach((value, j) => sums.push(added(sums[j]!, value.map((each) => weights[j]! * each))));
  return sums;
}

/** Whether C is a mean of the values under these weights. */
export const isMean = (weights: Vector): boolean => Math.abs(sum(weights) - 1) < 5e-4;

/** The normalizer that gives these weights for these scores; null if none does. */
export function normalizerOf(scores: Vector, weights: Vector): string | null {
  const gives = (name: string): boolean =>
    NORMALIZERS[name]!.weights(scores, 1).every((each, j) => Math.abs(each - weights[j]!) < 1e-3);
  return Object.keys(NORMALIZERS).find(gives) ?? null;
}

/** How far a plane reaches in which all of these vectors are inside. */
export const reachOf = (vectors: readonly Vector[]): number => 1.1 * Math.max(1e-6, ...vectors.flat().map(Math.abs));
