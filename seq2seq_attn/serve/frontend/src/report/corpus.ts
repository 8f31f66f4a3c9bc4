/** The sentences in the page, and the attention on them in each arm. */

import { END } from "../format.ts";
import { sum, upTo } from "../numbers.ts";
import { unpacked } from "../packed.ts";
import { wordsIn } from "../sentences.ts";
import type { Seen, SeenData } from "../source-picture.ts";
import { byId } from "./page.ts";

export interface Pair {
  line: number; // in the test set, from 1
  source: string;
  reference: string;
  gold: readonly (readonly [number, number])[]; // source word, word of the reference
}

/** A predicted token, with the attention at its step; what is not known is null. */
type StepData = [token: string, logProbability: number | null, weights: number[] | null, scores: number[] | null, shares: number[] | null];

/** A step of a beam on the grid of its tree; its rank is that of the best hypothesis through it. */
type NodeData = [step: number, row: number, column: number, parentRow: number, rank: number | null];

/** A translation as indices into the steps of its view, with the word that each of them belongs to. */
export interface Path {
  name: string;
  steps: readonly number[];
  words: readonly number[];
  score: number | null;
}

/** A sentence in one arm; the first path is the reference. */
export interface View {
  arm: string;
  source: readonly string[]; // tokens
  sourceWords: readonly number[]; // of each token
  steps: readonly StepData[];
  paths: readonly Path[];
  tree: readonly NodeData[];
  grid: number; // rows of the states of a source that is seen; 1: a sequence
}

interface Segmentation {
  source: string[][];
  target: string[][];
  sourceWords: number[][];
  targetWords: number[][];
}

interface Arm {
  translations: (string | 0)[]; // 0: the reference
  scores: number[];
  segmentation: number | null; // null: an arm without weights
}

/** As `as_data` in report/html_attention.py writes it. */
interface Packed {
  lines: number[];
  sources: string[];
  references: string[];
  gold: (Pair["gold"] | null)[];
  examples: Record<string, View[]>; // by line
  seen: Record<string, SeenData>; // by line
  metric: string;
  arms: Record<string, Arm>;
  segmentations: (Segmentation | null)[]; // null: the tokens are the words
}

/** As html_page.py writes it. */
interface Shown {
  best: string;
  styles: Record<string, number>;
  glosses: Record<string, string>;
}

export class Corpus {
  static async read(): Promise<Corpus> {
    const text = new TextDecoder().decode(await unpacked(byId("packed").textContent!, "deflate"));
    return new Corpus(JSON.parse(text) as Packed, JSON.parse(byId("data").textContent!) as Shown);
  }

  readonly pairs: readonly Pair[];
  readonly best: string;
  readonly metric: string;
  readonly arms: readonly string[]; // with a translation of each sentence
  readonly glosses: ReadonlyMap<string, string>;
  private readonly sounds = new Map([...document.querySelectorAll("audio")].map((audio) => [audio.id, audio]));
  private readonly levels = new Map<string, Uint8Array>(); // by arm: the weights of all pairs in units of 1/255

  private constructor(private readonly packed: Packed, private readonly shown: Shown) {
    const { lines, sources, references, gold } = packed;
    this.pairs = lines.map((line, place) => (
      { line, source: sources[place]!, reference: references[place]!, gold: gold[place] ?? [] }));
    this.best = shown.best;
    this.metric = packed.metric;
    this.arms = Object.keys(packed.arms);
    this.glosses = new Map(Object.entries(shown.glosses));
  }

  styleOf(arm: string): number {
    return this.shown.styles[arm] ?? 0;
  }

  /** The line of the first example. */
  get firstLine(): number {
    return Number(Object.keys(this.packed.examples)[0]);
  }

  /** What a source looks like; null for text. */
  seenOf(place: number): Seen | null {
    const id = this.pairs[place]!.line;
    const data = this.packed.seen[id];
    return data ? { ...data, id, audio: this.sounds.get(`sound-${id}`) ?? null } : null;
  }

  scoreOf(arm: string, place: number): number | undefined {
    return this.packed.arms[arm]?.scores[place];
  }

  translationOf(arm: string, place: number): string | undefined {
    const own = this.packed.arms[arm];
    return own && (own.translations[place] || this.pairs[place]!.reference);
  }

  /** A sentence in each arm. Examples have scores and beams; other sentences have weights alone. */
  async viewsOf(place: number): Promise<readonly View[]> {
    const example = this.packed.examples[this.pairs[place]!.line];
    return example ?? Promise.all(this.arms.map((arm) => this.viewOf(arm, place)));
  }

  private async viewOf(arm: string, place: number): Promise<View> {
    if (this.packed.arms[arm]!.segmentation === null) return { arm, source: [], sourceWords: [], steps: [], paths: [], tree: [], grid: 1 };
    const { source, target, sourceWords, targetWords } = this.tokensOf(arm, place);
    const weights = await this.weightsOf(arm, place);
    const steps = target.map((token, row): StepData => [token, null, weights[row]!, null, null]);
    const path = { name: "the reference", steps: upTo(steps.length), words: targetWords, score: null };
    return { arm, source, sourceWords, steps, paths: [path], tree: [], grid: 1 };
  }

  private tokensOf(arm: string, place: number): { source: string[]; target: string[]; sourceWords: number[]; targetWords: number[] } {
    const own = this.packed.segmentations[this.packed.arms[arm]!.segmentation!];
    if (own) {
      return { source: own.source[place]!, target: own.target[place]!, sourceWords: own.sourceWords[place]!, targetWords: own.targetWords[place]! };
    }
    const pair = this.pairs[place]!;
    const [source, target] = [[...wordsIn(pair.source), END], [...wordsIn(pair.reference), END]];
    return { source, target, sourceWords: upTo(source.length), targetWords: upTo(target.length) };
  }

  /** The matrices of an arm stand one after the other in a script of their own, decompressed on first use. */
  private async weightsOf(arm: string, place: number): Promise<number[][]> {
    // By name: the order of the keys of an object is not that of the file if some look like numbers.
    const scripts = [...document.querySelectorAll<HTMLElement>("script.weights")];
    const script = scripts.find((each) => each.dataset["arm"] === arm)!;
    const levels = this.levels.get(arm) ?? new Uint8Array(await unpacked(script.textContent!, "deflate"));
    this.levels.set(arm, levels);
    const sizes = upTo(place).map((pair) => this.tokensOf(arm, pair)).map(({ source, target }) => source.length * target.length);
    const { source, target } = this.tokensOf(arm, place);
    const first = sum(sizes);
    const row = (number: number): Uint8Array => levels.subarray(first + number * source.length, first + (number + 1) * source.length);
    return target.map((_, number) => Array.from(row(number), (level) => level / 255));
  }
}
