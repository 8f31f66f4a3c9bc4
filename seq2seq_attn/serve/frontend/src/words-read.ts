/** What the models read of a sentence where it is not what is written, with known words to choose instead. */

import { html, nothing, type TemplateResult } from "lit";
import type { ReadAs } from "./api.ts";
import { UNKNOWN } from "./format.ts";
import { Part } from "./part.ts";
import { tokensOf } from "./reading.ts";
import { wordsIn } from "./sentences.ts";
import type { Pane } from "./session.ts";
import "./words-read.css";

/** The models that read a sentence in the same way. */
interface Group {
  names: string[];
  words: readonly ReadAs[];
}

export class WordsRead extends Part {
  static override properties = {
    panes: { attribute: false },
    names: { attribute: false },
    version: { attribute: false },
  };
  declare panes: readonly Pane[];
  declare names: ReadonlyMap<string, string>;
  declare version: number; // changes with the content of the panes

  protected override render(): TemplateResult[] {
    const known = this.panes.filter((pane) => pane.base && !pane.isOutdated("base"));
    const groups = grouped(known.map((pane) => [this.names.get(pane.info.name)!, pane.base!.read_as]));
    return [...groups.map((group) => this.group(group, groups.length > 1)), ...this.beginnings()];
  }

  private group({ names, words }: Group, isNamed: boolean): TemplateResult {
    const unknown = words.filter(({ tokens }) => tokens.includes(UNKNOWN));
    const others = words.filter(({ tokens }) => !tokens.includes(UNKNOWN));
    const who = isNamed ? names.join(", ") : names.length > 1 ? "the models" : "the model";
    return html`${unknown.length === 0 ? nothing : html`<p class="words-read unknown" role="status">
        <strong>Unknown to ${who}</strong>, read as <code>${UNKNOWN}</code>: ${unknown.map((each) => this.unknown(each))}</p>`}
      ${others.length === 0 ? nothing : html`<p class="words-read note">Read by ${who} as in the training text:
        ${others.map(({ word, tokens }) => html`<span class="word"><bdi>${word}</bdi> as <b>${tokens.join(" ")}</b></span>`)}</p>`}`;
  }

  private unknown({ word, place, tokens, suggestions }: ReadAs): TemplateResult {
    return html`<span class="word"><mark><bdi>${word}</bdi></mark>${tokens.length > 1 ? html` <small>(${tokens.join(" ")})</small>` : nothing}
      ${suggestions.length === 0 ? nothing : html`<small>write</small> ${suggestions.map((each) => html`<button type="button"
        aria-label="Write ${each} in place of ${word}" @click=${() => this.write(place, each)}>${each}</button> `)}`}</span>`;
  }

  private write(place: number, word: string): void {
    const { source } = this.panes[0]!.state!;
    this.ask("change-sentence", withWord(source, place, word));
  }

  /** A typed beginning that was split or written in another way. */
  private beginnings(): TemplateResult[] {
    const read = this.panes.flatMap(({ edit: { prefix }, changed }) => {
      const tokens = typeof prefix === "string" && changed ? begun(prefix, tokensOf(changed)) : null;
      return tokens && tokens.join(" ") !== prefix ? [tokens.join(" ")] : [];
    });
    return [...new Set(read)].map((each) => html`<p class="words-read note">The translation begins with the tokens
      <b lang=${this.panes[0]!.info.target}>${each}</b></p>`);
  }
}

/** Models whose words are read in the same way, in their order; those that read what is written are left out. */
export function grouped(models: readonly (readonly [string, readonly ReadAs[]])[]): Group[] {
  const groups = new Map<string, Group>();
  for (const [name, words] of models) {
    const key = JSON.stringify(words);
    const group = groups.get(key) ?? { names: [], words };
    group.names.push(name);
    groups.set(key, group);
  }
  return [...groups.values()].filter(({ words }) => words.length > 0);
}

/** The sentence with another word, or several, in a place. */
export function withWord(sentence: string, place: number, word: string): string {
  return wordsIn(sentence).map((each, i) => (i === place ? word : each)).join(" ");
}

/** The tokens that were read of a typed beginning: the first ones that have its letters; null if none do. */
export function begun(typed: string, tokens: readonly string[]): string[] | null {
  const letters = (text: string): string => text.replace(/[\s▁]+/g, "").toLowerCase();
  const count = tokens.findIndex((_, i) => letters(tokens.slice(0, i + 1).join("")) === letters(typed));
  return count < 0 ? null : tokens.slice(0, count + 1);
}

customElements.define("words-read", WordsRead);
