/** One question at a time: of those that come meanwhile, the last is asked next. */

import { expect, test } from "vitest";
import { Line } from "../src/session.ts";

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
