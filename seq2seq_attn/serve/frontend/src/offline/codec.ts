/** Text to ids and back, as in seq2seq_attn/corpora/codec.py, for tokenizers that follow fixed rules. */

import type { Codec } from "./file.ts";

export const [UNK, PAD, BOS, EOS] = [0, 1, 2, 3] as const;
const SPECIALS = 4;
const LONGEST = 100; // characters of a word that is looked up in other forms

// The white space of Python's str.split, which differs from \s.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

export class Coder {
  private readonly ids: Map<string, number>;

  constructor(private readonly codec: Codec) {
    this.ids = new Map(codec.tokens.map((token, id) => [token, id]));
  }

  /** The pieces of a line, those outside the vocabulary included. */
  pieces(line: string): string[] {
    const text = this.codec.lowercase ? line.toLowerCase() : line;
    const words = text.split(SPACE).filter((word) => word);
    if (words.length === 0) return [];
    const pieces = this.codec.kind === "word"
      ? words
      : text.match(/<unk>|[^]/gu)!.map((character) => ({ " ": "▁", "▁": "▁▁" })[character] ?? character);
    return this.codec.match_known_forms ? pieces.flatMap((piece) => this.knownForms(piece)) : pieces;
  }

  /** The form in which the vocabulary has an unknown word, as in seq2seq_attn/corpora/unknown_words.py. */
  private knownForms(word: string): string[] {
    let rest = Array.from(word);
    if (rest.length > LONGEST) return [word];
    const ends: string[] = [];
    for (;;) {
      const known = this.inKnownCase(rest.join(""));
      if (known !== undefined) return [known, ...ends];
      let start = rest.length - 1;
      let end: string | undefined;
      for (; start > 0; start--) {
        if (!/^[\p{L}\p{N}]/u.test(rest[start]!)) end = this.inKnownCase(rest.slice(start).join(""));
        if (end !== undefined) break;
      }
      if (end === undefined) return [...this.splitUnknownEnd(rest.join("")), ...ends];
      ends.unshift(end);
      rest = rest.slice(0, start);
    }
  }

  private inKnownCase(word: string): string | undefined {
    const lower = word.toLowerCase();
    const [first = "", ...others] = lower;
    return [word, lower, first.toUpperCase() + others.join("")].find((form) => this.ids.has(form));
  }

  private splitUnknownEnd(word: string): string[] {
    const end = /[^\p{L}\p{N}]+$/u.exec(word);
    const known = end === null ? undefined : this.inKnownCase(word.slice(0, end.index));
    return known === undefined ? [word] : [known, end![0]];
  }

  /** Ids of text: `<unk>` is the unknown token, and so is a piece that is spelled like another special token. */
  encode(pieces: readonly string[]): number[] {
    return pieces.map((piece) => {
      const id = this.ids.get(piece) ?? UNK;
      return id < SPECIALS ? UNK : id;
    });
  }

  /** The id of a token that can stand in a translation, `<unk>` included; undefined for others. */
  id(token: string): number | undefined {
    const id = this.ids.get(token);
    return id === UNK || (id !== undefined && id >= SPECIALS) ? id : undefined;
  }

  token(id: number): string {
    return this.codec.tokens[id]!;
  }

  /** The line up to the first `</s>`, without `<s>` and `<pad>`; an unknown token is shown as `<unk>`. */
  decode(ids: readonly number[]): string {
    const end = ids.indexOf(EOS);
    const shown = ids.slice(0, end < 0 ? ids.length : end).filter((id) => id === UNK || id >= SPECIALS);
    const tokens = shown.map((id) => this.token(id));
    if (this.codec.kind === "word") return tokens.join(" ");
    return tokens.map((token) => ({ "▁": " ", "▁▁": "▁" })[token] ?? token).join("");
  }
}
