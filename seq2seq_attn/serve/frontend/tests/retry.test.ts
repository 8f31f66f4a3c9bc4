/** What is asked again by itself, after how long, and how that reads. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ApiError } from "../src/api.ts";
import { answerTo, type Failure, inWords, mayPass, pauseAfter } from "../src/retry.ts";

const dead = new ApiError(0, "the server does not answer");
const busy = new ApiError(429, "too many lines wait", 7);
const refused = new ApiError(400, "a blank sentence has no steps");
const ownError = new ApiError(500, "an error of the server");

describe("the pause before the next attempt", () => {
  test("grows while a server is dead, up to half a minute", () => {
    expect([1, 2, 3, 4, 5, 6, 60].map((failures) => pauseAfter(dead, failures))).toEqual([1, 2, 4, 8, 16, 30, 30]);
  });
  test("is never shorter than the server asks for", () => {
    expect([1, 4].map((failures) => pauseAfter(busy, failures))).toEqual([7, 8]);
  });
  test("is not there where only the reader can help", () => {
    expect([refused, ownError].map((error) => pauseAfter(error, 1))).toEqual([null, null]);
  });
});

test("a refused question is not offered again", () => {
  expect([dead, busy, ownError, refused].map(mayPass)).toEqual([true, true, true, false]);
});

test("a failure is one line", () => {
  expect(inWords(dead, 1)).toBe("The server does not answer. The next attempt is in 1 second.");
  expect(inWords(busy, 7)).toBe("Too many lines wait. The next attempt is in 7 seconds.");
  expect(inWords(new ApiError(0, "is it running?"), null)).toBe("Is it running?");
  expect(inWords(refused, null)).toBe("A blank sentence has no steps.");
});

describe("an answer", () => {
  const seconds = (count: number): Promise<unknown> => vi.advanceTimersByTimeAsync(1000 * count);
  /** Asks for what is answered by these in turn. */
  function asking(...answers: (string | ApiError)[]) {
    const control = new AbortController();
    const said: (Failure | string | null)[] = [];
    const ask = async (): Promise<string> => {
      const answer = answers.shift()!;
      if (answer instanceof ApiError) throw answer;
      return answer;
    };
    void answerTo(ask, control.signal, (failure) => said.push(failure)).then((found) => said.push(found));
    return { said, answers, control };
  }
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("is asked for until it is there, after growing pauses, and each failure is said", async () => {
    const { said } = asking(dead, dead, "found");
    await seconds(0.9);
    expect(said).toEqual([{ error: dead, pause: 1 }]);
    await seconds(2);
    expect(said).toEqual([{ error: dead, pause: 1 }, { error: dead, pause: 2 }]);
    await seconds(1);
    expect(said.at(-1)).toBe("found");
  });
  test("that was refused is not asked for again", async () => {
    const { said, answers } = asking(refused, "found");
    await seconds(100);
    expect([said, answers]).toEqual([[{ error: refused, pause: null }, null], ["found"]]);
  });
  test("for which nobody waits any more is neither shown nor asked for again", async () => {
    const late = asking("found");
    late.control.abort();
    const { said, answers, control } = asking(dead, "found");
    await seconds(0.5);
    control.abort();
    await seconds(100);
    expect(late.said).toEqual([null]);
    expect([said, answers]).toEqual([[{ error: dead, pause: 1 }, null], ["found"]]);
  });
});
