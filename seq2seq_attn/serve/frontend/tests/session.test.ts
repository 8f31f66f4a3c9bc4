/** One question at a time, and what was answered before stays until the next answer arrives. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Answers, ApiError, type Decoded, type ModelInfo, type Step } from "../src/api.ts";
import { Line, Pane } from "../src/session.ts";
import { defaults, type State } from "../src/state.ts";

/** Work that notes its name when it begins and is done when it is told so. */
function desk() {
  const begun: string[] = [];
  const done = new Map<string, () => void>();
  const aborted: string[] = [];
  const work = (name: string) => (signal: AbortSignal): Promise<void> => {
    begun.push(name);
    signal.addEventListener("abort", () => aborted.push(name));
    return new Promise((resolve) => done.set(name, resolve));
  };
  const finish = async (name: string): Promise<void> => {
    done.get(name)!();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { begun, aborted, work, finish };
}

test("of the questions that wait, the last is asked", async () => {
  const { begun, work, finish } = desk();
  const line = new Line();
  for (const name of ["a", "b", "c"]) line.ask(name, false, work(name));
  expect(begun).toEqual(["a"]);
  await finish("a");
  expect(begun).toEqual(["a", "c"]);
});

test("the same question is asked once", () => {
  const { begun, work } = desk();
  const line = new Line();
  line.ask("a", true, work("a"));
  line.ask("a", true, work("a"));
  expect(begun).toEqual(["a"]);
});

test("a question in a hurry breaks off the one before, which then starts nothing", async () => {
  const { begun, aborted, work, finish } = desk();
  const line = new Line();
  line.ask("a", false, work("a"));
  line.ask("b", false, work("b"));
  line.ask("c", true, work("c"));
  expect(aborted).toEqual(["a"]);
  await finish("a");
  expect(begun).toEqual(["a", "c"]);
});

test("after a stop, the same question is asked again", () => {
  const { begun, aborted, work } = desk();
  const line = new Line();
  line.ask("a", false, work("a"));
  line.stop();
  line.ask("a", false, work("a"));
  expect(aborted).toEqual(["a"]);
  expect(begun).toEqual(["a", "a"]);
});

describe("a pane", () => {
  const step = (token: string): Step => ({ token, log_probability: -1, weights: null, layers: [], likely: [] });
  const decoded = (...tokens: string[]): Decoded => ({ read_as: [], source: ["a"], text: tokens.join(" "), log_probability: -1, steps: tokens.map(step) });
  const info = { name: "m", heads: [1], search: { beam_size: 1, length_penalty: 1 } } as ModelInfo;
  const of = (source: string, more: Partial<State> = {}): State => ({ ...defaults(), source, ...more });
  const edits = { m: { prefix: "x", interventions: [] } };
  const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

  /** A server whose stream yields what `tell` is given, and fails with what `fail` is given. */
  function server() {
    const waiting: { source: string; tell: (found: Decoded | null) => void; fail: (error: Error) => void }[] = [];
    const next = (source: string): Promise<Decoded | null> =>
      new Promise((tell, fail) => waiting.push({ source, tell, fail }));
    const api = {
      isServer: true,
      steps: (request: { source: string }) => next(`edited ${request.source}`),
      async *stream(request: { source: string }) {
        yield decoded(); // it has begun
        for (let found = await next(request.source); found; found = await next(request.source)) yield found;
      },
    } as unknown as Answers;
    return { waiting, pane: new Pane(info, api, () => undefined) };
  }

  /** A pane that has answered the sentence "one". */
  async function answered() {
    const { waiting, pane } = server();
    pane.sync(of("one"));
    for (const found of [decoded("1"), null]) {
      await settled();
      waiting.shift()!.tell(found);
    }
    await settled();
    expect([pane.base!.text, pane.isStale("base"), pane.isOutdated(), pane.busy]).toEqual(["1", false, false, 0]);
    return { waiting, pane };
  }

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("keeps its figures until the first step of the next answer", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("two"));
    await settled();
    expect([pane.base!.text, pane.isStale("base"), pane.isOutdated()]).toEqual(["1", true, true]);
    waiting.shift()!.tell(decoded("2"));
    await settled();
    expect([pane.base!.text, pane.isStale("base"), pane.isOutdated()]).toEqual(["2", false, false]);
  });

  test("shows the changed translation of the sentence before as outdated, and that of an edit as stale alone", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("one", { edits }));
    waiting.shift()!.tell(decoded("x", "1"));
    await settled();
    expect([pane.current!.text, pane.isStale("changed")]).toEqual(["x 1", false]);
    pane.sync(of("one", { edits: { m: { prefix: "y", interventions: [] } } }));
    expect([pane.current!.text, pane.isStale("changed"), pane.isOutdated()]).toEqual(["x 1", true, false]);
    waiting.shift()!.tell(decoded("y", "1"));
    await settled();
    pane.sync(of("two", { edits }));
    expect([pane.current!.text, pane.isStale("changed"), pane.isOutdated()]).toEqual(["y 1", true, true]);
  });

  test("asks a dead server again after growing pauses, and keeps what it has", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("two"));
    for (const pause of [1, 2, 4]) {
      await settled();
      waiting.shift()!.fail(new ApiError(0, "dead"));
      await settled();
      expect([pane.failure!.pause, pane.base!.text, pane.isStale("base")]).toEqual([pause, "1", true]);
      await vi.advanceTimersByTimeAsync(1000 * pause - 1);
      expect(waiting).toEqual([]);
      await vi.advanceTimersByTimeAsync(1);
      expect(waiting).toHaveLength(1);
    }
    waiting.shift()!.tell(decoded("2"));
    await settled();
    expect([pane.failure, pane.base!.text, pane.isStale("base")]).toEqual([null, "2", false]);
  });

  test("asks again at once when the reader does, and then not a second time", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("two"));
    await settled();
    waiting.shift()!.fail(new ApiError(429, "busy", 60));
    await settled();
    pane.again(of("two"));
    await settled();
    expect(waiting).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(waiting).toHaveLength(1);
  });

  test("forgets the failure of a sentence with that sentence, and asks nothing that was refused again", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("two"));
    await settled();
    waiting.shift()!.fail(new ApiError(400, "too long"));
    await vi.advanceTimersByTimeAsync(120_000);
    expect([waiting, pane.failure!.pause]).toEqual([[], null]);
    pane.sync(of("three"));
    expect(pane.failure).toBe(null);
  });

  test("shows no translation of an edit that was taken back while it was asked for", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("one", { edits }));
    pane.sync(of("one"));
    waiting.shift()!.tell(decoded("x", "1"));
    await settled();
    expect(pane.current!.text).toBe("1");
  });

  test("shows no step of a sentence that was deleted", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("two"));
    await settled();
    pane.sync(of(""));
    waiting.shift()!.tell(decoded("2"));
    await settled();
    expect(pane.base).toBe(null);
  });

  test("is silent about the failure of an edit that another one follows", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("one", { edits }));
    pane.sync(of("one", { edits: { m: { prefix: "y", interventions: [] } } }));
    waiting.shift()!.fail(new ApiError(400, "no such token"));
    await settled();
    expect([pane.failure, pane.isStale("base"), pane.busy]).toEqual([null, false, 1]);
    waiting.shift()!.tell(decoded("y", "1"));
    await settled();
    expect([pane.current!.text, pane.isStale("changed")]).toEqual(["y 1", false]);
  });

  test("asks for another edit at once while the server that failed is given a pause", async () => {
    const { waiting, pane } = await answered();
    pane.sync(of("one", { edits }));
    waiting.shift()!.fail(new ApiError(429, "busy", 60));
    await settled();
    expect([pane.failure!.pause, pane.busy]).toEqual([60, 0]);
    pane.sync(of("one", { edits: { m: { prefix: "y", interventions: [] } } }));
    expect([pane.failure, waiting.length]).toEqual([null, 1]);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(waiting).toHaveLength(1);
  });
});
