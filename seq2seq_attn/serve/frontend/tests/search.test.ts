/** Search over a small made-up model, against all translations that there are. */

import { describe, expect, test } from "vitest";
import { BOS, EOS, PAD } from "../src/offline/codec.ts";
import type { Decoder } from "../src/offline/decoder.ts";
import { bestToken, logSoftmax, mostLikely, type Options, search } from "../src/offline/search.ts";

const SIZE = 7; // four special tokens, and three words
const LIMIT = 4;

/** Logits that depend on all tokens before; the same for the same seed. */
function logitsAfter(ids: readonly number[], seed: number): Float32Array {
  const hash = ids.reduce((value, id) => (value * 31 + id + 1) % 9973, seed + 17);
  return Float32Array.from({ length: SIZE }, (_, id) => 2 * Math.sin(hash * (id + 1.7)));
}

/** A decoder whose state is the tokens of each hypothesis. */
function decoderOf(seed: number): Decoder {
  const made = {
    after: (prefix: readonly number[]) => Promise.resolve({ state: [prefix.slice(0, -1)], token: prefix.at(-1) ?? BOS }),
    step: (tokens: readonly number[], state: readonly number[][]) => {
      const after = tokens.map((token, row) => [...state[row]!, token]);
      return Promise.resolve({ logits: after.map((ids) => logitsAfter(ids, seed)), after });
    },
    select: (state: readonly number[][], rows: readonly number[]) => rows.map((row) => state[row]!),
  };
  return made as unknown as Decoder;
}

const options = (more: Partial<Options> = {}): Options => ({ beamSize: 1, nBest: 1, minLength: 1, limit: LIMIT, lengthPenalty: 1, lengthReward: 0, sampling: null, ...more });

/** All translations that end in `</s>`, the best first. */
function all(seed: number, { minLength, lengthPenalty, lengthReward }: Options): { ids: number[]; score: number }[] {
  const found: { ids: number[]; score: number }[] = [];
  const go = (ids: number[], total: number): void => {
    if (ids.length === LIMIT) return;
    const own = logSoftmax(logitsAfter([BOS, ...ids], seed));
    const length = ids.length + 1; // `</s>` counts
    if (length >= minLength) found.push({ ids, score: (total + own[EOS]!) / ((5 + length) / 6) ** lengthPenalty + lengthReward * length });
    for (let id = 0; id < SIZE; id += 1) if (id !== EOS && id !== PAD && id !== BOS) go([...ids, id], total + own[id]!);
  };
  go([], 0);
  return found.sort((a, b) => b.score - a.score);
}

describe("a beam that holds everything", () => {
  test.each([1, 2, 3, 4, 5])("finds the best of all translations (model %i)", async (seed) => {
    for (const ranking of [{ lengthPenalty: 0 }, { lengthPenalty: 1 }, { lengthPenalty: 0.5, lengthReward: 1.5 }]) {
      const given = options({ beamSize: 400, nBest: 5, ...ranking });
      const found = await search(decoderOf(seed), [], given);
      all(seed, given).slice(0, 5).forEach((expected, rank) => {
        expect(found[rank]!.ids).toEqual(expected.ids);
        expect(found[rank]!.score).toBeCloseTo(expected.score, 8);
      });
    }
  });
  test("keeps the minimum length, which counts </s>", async () => {
    const [found] = await search(decoderOf(2), [], options({ beamSize: 400, minLength: 3 }));
    expect(found!.ids.length).toBeGreaterThanOrEqual(2);
  });
});

test("a beam of one is greedy", async () => {
  for (const seed of [1, 2, 3]) {
    const ids: number[] = [];
    for (;;) {
      const token = bestToken(logitsAfter([BOS, ...ids], seed), true);
      if (token === EOS || ids.length === LIMIT) break;
      ids.push(token);
    }
    const [found] = await search(decoderOf(seed), [], options());
    expect(found!.ids).toEqual(ids);
  }
});

test("predictions that are not finite are refused, however they are searched", async () => {
  const broken = { ...decoderOf(1), step: async () => ({ logits: [new Float32Array(SIZE).fill(NaN)], after: [[]] }) } as unknown as Decoder;
  const sampling = { temperature: 1, topP: 1, seed: 1 };
  for (const given of [options(), options({ beamSize: 4 }), options({ sampling })]) {
    await expect(search(broken, [], given)).rejects.toMatchObject({ status: 400, message: expect.stringContaining("no longer finite") });
  }
});

describe("samples", () => {
  const drawn = async (sampling: Options["sampling"], nBest = 400) => search(decoderOf(3), [], options({ sampling, nBest }));

  test("are the same for the same seed", async () => {
    const sampling = { temperature: 1, topP: 1, seed: 5 };
    expect(await drawn(sampling, 20)).toEqual(await drawn(sampling, 20));
    expect(await drawn(sampling, 20)).not.toEqual(await drawn({ ...sampling, seed: 6 }, 20));
  });
  test("have the frequencies of the model in their first token", async () => {
    const found = await drawn({ temperature: 1, topP: 1, seed: 1 }, 4000);
    const own = logSoftmax(logitsAfter([BOS], 3)).map((each, id) => (id === PAD || id === BOS ? 0 : Math.exp(each)));
    const whole = own.reduce((a, b) => a + b, 0);
    own.forEach((share, id) => {
      const times = found.filter(({ ids }) => (ids[0] ?? EOS) === id).length;
      expect(Math.abs(times / 4000 - share / whole)).toBeLessThan(0.03); // more than three standard errors
    });
  });
  test("of a small nucleus, or of no temperature, are greedy", async () => {
    const [greedy] = await search(decoderOf(3), [], options());
    for (const sampling of [{ temperature: 1, topP: 1e-6, seed: 1 }, { temperature: 1e-3, topP: 1, seed: 1 }]) {
      expect((await drawn(sampling, 10)).every(({ ids }) => ids.join() === greedy!.ids.join())).toBe(true);
    }
  });
});

test("the most likely are those of a sorted list, the first of equals first", () => {
  expect(mostLikely([1, 3, 3, 2, 0], 3)).toEqual([1, 2, 3]);
  expect(mostLikely([1], 3)).toEqual([0]);
});
