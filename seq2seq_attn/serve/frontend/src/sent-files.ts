/** Sources that are files: the state of the page, and so a link, has a name; what the server is sent is the content. */

import type { ModelInfo, SeenRecord } from "./api.ts";
import type { Seen } from "./source-picture.ts";

const EXAMPLE = /^example:([1-9]\d*)$/;
const own = new Map<string, string>(); // the lines of files that a user chose, by their names in the state

export const readsText = ({ reads }: ModelInfo): boolean => reads === undefined || reads === "text";

/** The name in the state of an example of the test set, which every page of this server has. */
export const exampleName = (place: number): string => `example:${place + 1}`;

/** The place of the example that a state names; null for another file. */
export function exampleOf(source: string): number | null {
  const number = EXAMPLE.exec(source)?.[1];
  return number === undefined ? null : Number(number) - 1;
}

/** Keeps a file and returns its name in the state, a new one if another file of the name is kept already. */
export function keep(name: string, line: string): string {
  let source = `file:${name}`;
  for (let number = 2; own.has(source) && own.get(source) !== line; number += 1) source = `file:${name} (${number})`;
  own.set(source, line);
  return source;
}

/** What a model is asked to read; null: a file that this page does not have, or a sentence for a model that reads none. */
export function lineOf(info: ModelInfo, source: string): string | null {
  if (readsText(info)) return source;
  const place = exampleOf(source);
  return (place === null ? own.get(source) : info.examples[place]?.source) ?? null;
}

const shown = new WeakMap<SeenRecord, Seen>();
let last = 0;

/** How the page shows a source: always the same record for the same answer. */
export function seenOf(record: SeenRecord): Seen {
  const found = shown.get(record);
  if (found) return found;
  const [height, width] = record.shape;
  const tile = Math.min(Math.max(5 * Math.sqrt(width / height), 4), 20); // as in report/html_attention.py
  const style = `--shape: ${width}/${height}; --tile: ${tile.toFixed(1)}rem`;
  const audio = record.sound === null ? null : new Audio(record.sound);
  const seen = { id: (last += 1), positions: record.positions, shape: record.shape, seconds: record.seconds, style, audio };
  shown.set(record, seen);
  return seen;
}
