/** Text to ids and back, as in seq2seq_attn/corpora/codec.py, for tokenizers that follow fixed rules. */

import type { ReadAs } from "../api.ts";
import { UNKNOWN } from "../format.ts";
import type { Codec } from "./file.ts";

export const [UNK, PAD, BOS, EOS] = [0, 1, 2, 3] as const;
const SPECIALS = 4;
const LONGEST = 100; // characters of a word that is looked up in other forms
const SUGGESTED = 20; // words of a line for which others are suggested
const [NEAREST, ALIKE] = [3, 0.5]; // suggestions for a word, and the share of pairs of letters in common

// The white space of Python's str.split, which differs from \s.
const BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACE = new RegExp(`[${BLANK}]+`);
const WITH_SPACE = new RegExp(`[${BLANK}]*[^${BLANK}]+(?:[${BLANK}]+$)?`, "g"); // a word, and what of a line belongs to it
const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

export class Coder {
  private readonly ids: Map<string, number>;

  constructor(private readonly codec: Codec) {
    this.ids = new Map(codec.tokens.map((token, id) => [token, id]));
  }

  /** The pieces of a line, those outside the vocabulary included. */
  pieces(line: string): string[] {
    return this.words(line).flatMap(({ pieces }) => pieces);
  }

  /** The pieces, `PIECE (<unk>)` for one that is not in the vocabulary. */
  labels(line: string): string[] {
    return this.pieces(line).map((piece) => (this.asRead(piece) === piece ? piece : `${piece} (${UNKNOWN})`));
  }

  /** The words that are read in another form than they are written in, or as `<unk>`, as `Codec.read_as` in Python. */
  readAs(line: string): ReadAs[] {
    const found: ReadAs[] = [];
    const written = line.split(SPACE).filter((word) => word);
    for (const [place, { text, pieces }] of this.words(line).entries()) {
      const tokens = pieces.map((piece) => this.asRead(piece));
      const unknown = pieces.filter((piece, i) => piece !== tokens[i]);
      if (unknown.length === 0 && (this.codec.kind !== "word" || tokens.join() === text)) continue;
      const suggestions = found.length < SUGGESTED ? this.suggestions(written[place]!, unknown) : [];
      found.push({ word: written[place]!, place, tokens, suggestions });
    }
    return found;
  }

  /** Each word of a line as it is tokenized, with its pieces. */
  private words(line: string): { text: string; pieces: string[] }[] {
    const prepared = this.codec.lowercase ? line.toLowerCase() : line;
    if (this.codec.kind !== "word") {
      return (prepared.match(WITH_SPACE) ?? []).map((text) => ({
        text,
        pieces: text.match(/<unk>|[^]/gu)!.map((character) => ({ " ": "▁", "▁": "▁▁" })[character] ?? character),
      }));
    }
    const words = prepared.split(SPACE).filter((word) => word);
    return words.map((text) => ({ text, pieces: this.codec.match_known_forms ? this.knownForms(text) : [text] }));
  }

  private asRead(piece: string): string {
    return this.idOf(piece) === UNK ? UNKNOWN : piece;
  }

  /** The id of a piece of text; one that is spelled like a special token is unknown. */
  private idOf(piece: string): number {
    const id = this.ids.get(piece) ?? UNK;
    return id < SPECIALS ? UNK : id;
  }

  private suggestions(word: string, unknown: readonly string[]): string[] {
    if (this.codec.kind !== "word" || unknown.length === 0) return [];
    const forms = this.knownForms(word);
    const isKnown = forms.every((form) => this.ids.has(form)) && forms.join() !== word;
    const near = unknown.flatMap((piece) =>
      this.near(piece).map((other) => (word.includes(piece) ? word.replace(piece, () => other) : other)),
    );
    return [...new Set([...(isKnown ? [forms.join(" ")] : []), ...near])];
  }

  /** The words of the vocabulary that share the most pairs of letters with this one. */
  private near(word: string): string[] {
    if (Array.from(word).length > LONGEST) return [];
    const own = pairsOf(word);
    return this.codec.tokens
      .slice(SPECIALS)
      .map((token) => {
        const pairs = pairsOf(token);
        const shared = [...own].filter((pair) => pairs.has(pair)).length;
        return { token, alike: (2 * shared) / (own.size + pairs.size) };
      })
      .filter(({ alike }) => alike >= ALIKE)
      .sort((a, b) => b.alike - a.alike)
      .slice(0, NEAREST)
      .map(({ token }) => token);
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
      if (end === undefined) return [...(this.splitUnspaced(rest) ?? this.splitUnknownEnd(rest.join(""))), ...ends];
      ends.unshift(end);
      rest = rest.slice(0, start);
    }
  }

  private inKnownCase(word: string): string | undefined {
    const lower = word.toLowerCase();
    const [first = "", ...others] = lower;
    return [word, lower, first.toUpperCase() + others.join("")].find((form) => this.ids.has(form));
  }

  /** The fewest known words that a word of a script without spaces consists of, the longest first of equals. */
  private splitUnspaced(word: readonly string[]): string[] | null {
    if (!UNSPACED.test(word.join(""))) return null;
    const ofEnd: (string[] | null)[] = [...word.map(() => null), []]; // of what begins at each place
    for (let start = word.length - 1; start >= 0; start--) {
      for (let end = word.length; end > start; end--) {
        const first = word.slice(start, end).join("");
        const rest = ofEnd[end];
        const best = ofEnd[start];
        if (rest && this.ids.has(first) && (!best || 1 + rest.length < best.length)) ofEnd[start] = [first, ...rest];
      }
    }
    return ofEnd[0] ?? null;
  }

  private splitUnknownEnd(word: string): string[] {
    const end = /[^\p{L}\p{N}]+$/u.exec(word);
    const known = end === null ? undefined : this.inKnownCase(word.slice(0, end.index));
    return known === undefined ? [word] : [known, end![0]];
  }

  encode(pieces: readonly string[]): number[] {
    return pieces.map((piece) => this.idOf(piece));
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

/** The pairs of neighboring letters, in lower case, with a blank before and after the word. */
function pairsOf(word: string): Set<string> {
  const letters = [" ", ...word.toLowerCase(), " "];
  return new Set(letters.slice(1).map((letter, i) => letters[i]! + letter));
}
