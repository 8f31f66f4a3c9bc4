/** Text to ids and back, as in seq2seq_attn/text/codec.py, for tokenisers that follow fixed rules. */

import type { Codec } from "./file.ts";

export const [UNK, PAD, BOS, EOS] = [0, 1, 2, 3] as const;
const SPECIALS = 4;

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
    if (this.codec.kind === "word" || words.length === 0) return words;
    return Array.from(text, (character) => ({ " ": "▁", "▁": "▁▁" })[character] ?? character);
  }

  /** Ids of ordinary text: a piece that is spelt like a special token is unknown. */
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

  /** The line up to the first `</s>`, without special tokens. */
  decode(ids: readonly number[]): string {
    const end = ids.indexOf(EOS);
    const tokens = ids.slice(0, end < 0 ? ids.length : end).filter((id) => id >= SPECIALS).map((id) => this.token(id));
    if (this.codec.kind === "word") return tokens.join(" ");
    return tokens.map((token) => ({ "▁": " ", "▁▁": "▁" })[token] ?? token).join("");
  }
}
