/** What a link holds, read value by value: what cannot be read is noted, and takes its default. */

import { shortened } from "./format.ts";

const MOST = 10_000; // characters of a value

export class Link {
  readonly unread: string[] = []; // for a reader: what was left out
  private readonly asked = new Set<string>();

  constructor(private readonly query: URLSearchParams) {}

  /** A value; `initial` if it is missing, too long, or undefined as parsed. */
  read<T>(name: string, initial: T, parse: (text: string) => T | undefined, most: number = MOST): T {
    this.asked.add(name);
    const text = this.query.get(name);
    if (text === null || !this.fits(name, text, most)) return initial;
    const value = parse(text);
    if (value === undefined) this.unread.push(`${name}=${short(text)}`);
    return value ?? initial;
  }

  number<T extends number | null>(name: string, low: number, high: number, initial: T): number | T {
    return this.read<number | T>(name, initial, (text) => {
      const value = numberIn(text);
      return value >= low && value <= high ? value : undefined;
    });
  }

  /** All values of a name that may stand several times. */
  all(name: string): string[] {
    this.asked.add(name);
    return this.query.getAll(name).filter((text) => this.fits(name, text, MOST));
  }

  private fits(name: string, text: string, most: number): boolean {
    if (text.length > most) this.unread.push(`${name}, which has ${text.length} characters (at most ${most})`);
    return text.length <= most;
  }

  /** Notes the names that nobody asked for. */
  finish(): string[] {
    for (const name of new Set(this.query.keys())) if (!this.asked.has(name)) this.unread.push(short(name));
    return this.unread;
  }
}

/** The number that a text is; NaN for none, and for what Number takes for 0. */
export const numberIn = (text: string): number => (text.trim() === "" ? NaN : Number(text));

const short = (text: string): string => shortened(text, 40);
