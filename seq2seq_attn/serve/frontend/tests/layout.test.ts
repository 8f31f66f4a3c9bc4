/** Where the parts of figures stand, which word is dragged first, and what the page offers to begin with. */

import { describe, expect, test } from "vitest";
import type { ModelInfo } from "../src/api.ts";
import { movedWeight } from "../src/edits.ts";
import { invitation } from "../src/invitation.ts";
import { centers, nearest, partSize, widthOfSides } from "../src/layout.ts";
import { isShown, presets } from "../src/presets.ts";
import { defaults } from "../src/state.ts";
import { factsOf } from "../src/vector-facts.ts";

describe("parts of a figure", () => {
  test("bars fill their column, and never exceed it while they are wide enough to be grasped", () => {
    expect(partSize(320, 5, 14, 64)).toBe(64);
    for (const count of [6, 9, 20]) expect(partSize(320, count, 14, 64) * count).toBeLessThanOrEqual(320);
    expect(partSize(320, 9, 14, 64)).toBe(35);
    expect(partSize(320, 50, 14, 64)).toBe(14); // and the row scrolls
    expect(partSize(320, 0, 14, 64)).toBe(64);
  });

  test("both sentences are spread over the room, or over what the longer one needs", () => {
    expect(widthOfSides([[30, 30], [20, 20, 20]], 400)).toBe(400);
    expect(widthOfSides([[30, 30], [200, 200, 20]], 400)).toBe(420 + 3 * 14);
    expect(centers([30, 30], 400)).toEqual([100, 300]);
    const [first, last] = [centers([10, 50, 20], 200).at(0)!, centers([10, 50, 20], 200).at(-1)!];
    expect(first - 10 / 2).toBeCloseTo(200 - (last + 20 / 2)); // as far from both ends
  });

  test("what is let go over a gap belongs to the nearest word", () => {
    expect(nearest([100, 300, 340], 215)).toBe(1);
    expect(nearest([100, 300, 340], -50)).toBe(0);
  });
});

describe("the first thing to drag", () => {
  const source = ["Tom", "chases", "Jerry", ".", "</s>"];

  test("is the word that the step reads most, to the next word", () => {
    expect(invitation(source, [0, 0.9, 0.1, 0, 0])).toEqual({ from: 1, to: 2 });
    expect(invitation(source, [0.1, 0, 0.9, 0, 0])).toEqual({ from: 2, to: 1 }); // none follows: a stop is no word
  });

  test("is nothing where a stop is read, or where no other word is", () => {
    expect(invitation(source, [0, 0, 0, 0.6, 0.4])).toBeNull();
    expect(invitation(source, [0, 0, 0, 0.4, 0.6])).toBeNull();
    expect(invitation(["ha", "ha", "<unk>", "</s>"], [1, 0, 0, 0])).toBeNull();
  });

  test("gives the weight of one word to the other, and leaves the sum", () => {
    expect(movedWeight([0.25, 0.5, 0.25], 1, 2)).toEqual([0.25, 0, 0.75]);
    expect(movedWeight([0.25, 0.5, 0.25], 1, 1)).toEqual([0.25, 0.5, 0.25]);
  });
});

describe("one vector", () => {
  test("names the words whose exchange moves it least and most, and leaves stops out", () => {
    const facts = factsOf(["Tom", "the", ".", "</s>"], [0.5, 0.1, 0.9]);
    expect(facts).toEqual({ mean: 0.3, least: { token: "the", change: 0.1 }, most: { token: "Tom", change: 0.5 } });
    expect(factsOf([".", "</s>"], [0.5])).toBeNull();
  });
});

describe("presets", () => {
  const example = (source: string): ModelInfo["examples"][number] => ({ source, target: "", links: null });
  const long = Array.from({ length: 50 }, () => "word").join(" ");
  const info = (name: string, more: Partial<ModelInfo> = {}): ModelInfo => ({
    name, source: "en", target: "zh", kind: "recurrent", parameters: 1, heads: [1], max_length: 100,
    search: { beam_size: 1, length_penalty: 1 },
    examples: [example("can Mary kick a fox ?"), example("my book will be checked by Mary ."), example(long)], ...more,
  });
  const titles = (...models: ModelInfo[]): string[] => presets(models).map(({ title }) => title);

  test("are sentences that the test set has, and what the served models can show", () => {
    const all = presets([info("attention", { glosses: { 猫: "cat" } }), info("distracted", { heads: [] })]);
    expect(all.map(({ title }) => title)).toEqual([
      "Tom chases Jerry", "Passive", "Question", "50 words", "One vector", "Wrong word",
    ]);
    expect(all[1]!.patch.source).toBe("my book will be checked by Mary .");
    expect(all[4]!.patch).toMatchObject({ source: long, models: ["attention", "distracted"] });
    expect(titles(info("attention"))).not.toContain("One vector");
    expect(titles(info("attention"))).not.toContain("Wrong word"); // its tokens may not be words
    expect(titles(info("attention", { source: "zh" }))).toEqual([]);
  });

  test("say which of them is shown", () => {
    const [first, passive] = presets([info("attention")]);
    const state = { ...defaults(), ...first!.patch };
    expect([isShown(first!, state), isShown(passive!, state)]).toEqual([true, false]);
    expect(isShown(first!, { ...state, edits: { attention: { prefix: ["他"], interventions: [] } } })).toBe(false);
  });
});
