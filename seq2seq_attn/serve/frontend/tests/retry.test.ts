/** What is asked again by itself, after how long, and how that reads. */

import { describe, expect, test } from "vitest";
import { ApiError } from "../src/api.ts";
import { inWords, mayPass, pauseAfter } from "../src/retry.ts";

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
