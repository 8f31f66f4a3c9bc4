/** What the server answers, and what the page makes of answers that fail or break off. */

import { afterEach, describe, expect, test, vi } from "vitest";
import { Api, type ApiError, type Decoded } from "../src/api.ts";

const STEP = 'event: step\ndata: {"token": "x", "log_probability": -1, "text": "x"}\n\n';
const END = 'event: end\ndata: {"text": "x y", "log_probability": -3}\n\n';
const request = { model: "m", source: "a" };
const { signal } = new AbortController();

afterEach(() => void vi.unstubAllGlobals());

/** Every request is answered by this. */
const answering = (answer: () => Promise<Response>): void => void vi.stubGlobal("fetch", answer);

/** An answer of these texts, whose connection then closes, or breaks off. */
const body = (texts: string[], breaks: boolean) => async (): Promise<Response> =>
  new Response(new ReadableStream({
    pull(control) {
      const text = texts.shift();
      if (text !== undefined) control.enqueue(new TextEncoder().encode(text));
      else if (breaks) control.error(new TypeError("network error"));
      else control.close();
    },
  }));

/** What a stream yields, and the error that ends it. */
async function read(): Promise<{ found: Decoded[]; error: ApiError | null }> {
  const found: Decoded[] = [];
  try {
    for await (const each of new Api().stream(request, signal)) found.push(each);
  } catch (error) {
    return { found, error: error as ApiError };
  }
  return { found, error: null };
}

describe("a stream", () => {
  test("grows with every step, however its text is cut", async () => {
    answering(body([STEP.slice(0, 20), STEP.slice(20) + STEP.slice(0, 9), STEP.slice(9), END], false));
    const { found, error } = await read();
    expect(found.map(({ steps, text }) => [steps.length, text])).toEqual([[1, "x"], [2, "x"], [2, "x y"]]);
    expect([found.at(-1)!.log_probability, error]).toEqual([-3, null]);
  });
  test.each([true, false])("of a server that was killed keeps its steps and says so, breaking off: %s", async (breaks) => {
    answering(body([STEP], breaks));
    const { found, error } = await read();
    expect(found).toHaveLength(1);
    expect(error).toMatchObject({ status: 0, message: "the connection to the server broke off" });
  });
  test("of a server that stops may be asked for again", async () => {
    answering(body([STEP, 'event: error\ndata: {"error": "the server is stopping"}\n\n'], false));
    expect((await read()).error).toMatchObject({ status: 503, message: "the server is stopping" });
  });
});

describe("an answer", () => {
  const failure = () => new Api().steps(request, signal).catch((error: unknown) => error);
  test("of a dead server says that there is none", async () => {
    answering(() => Promise.reject(new TypeError("Failed to fetch")));
    expect(await failure()).toMatchObject({ status: 0, message: "the server does not answer; is it still running?" });
  });
  test.each<[string, (api: Api) => Promise<unknown>]>([
    ["steps", (api) => api.steps(request, signal)],
    ["a plane", (api) => api.plane({ ...request, layer: 0, head: 0 }, signal)],
    ["a vector", (api) => api.vector(request, signal)],
    ["self-attention", (api) => api.selfAttention("m", "a", signal)],
  ])("with %s that breaks off says so", async (_, ask) => {
    answering(body(['{"source": ["a"'], true));
    await expect(ask(new Api())).rejects.toMatchObject({ status: 0, message: "the connection to the server broke off" });
  });
  test("of a busy server has its words, and when to ask again", async () => {
    answering(async () => new Response('{"error": "too many lines wait"}', { status: 429, headers: { "retry-after": "5" } }));
    expect(await failure()).toMatchObject({ status: 429, message: "too many lines wait", retryAfter: 5 });
  });
  test("that nobody waits for any more is no failure of the server", async () => {
    answering(() => Promise.reject(new DOMException("", "AbortError")));
    expect(await failure()).toMatchObject({ name: "AbortError" });
  });
});
