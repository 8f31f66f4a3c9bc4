/** The sentences of the page, filtered by text, length and score. */

import { html, nothing, type TemplateResult } from "lit";
import { fixed } from "../format.ts";
import { option } from "../option.ts";
import { Part } from "../part.ts";
import type { Filters } from "./address.ts";
import { upTo } from "../numbers.ts";
import { wordsIn } from "../sentences.ts";
import type { Corpus } from "./corpus.ts";

const ORDERS: Record<string, string> = { line: "as in the test set", up: "lowest score first", down: "highest score first" };

const isWithin = (value: number, low: string, high: string): boolean =>
  (low === "" || value >= Number(low)) && (high === "" || value <= Number(high));

/** The places of the pairs that match. */
function found(corpus: Corpus, { search, shortest, longest, scored, lowest, highest, order }: Filters): number[] {
  const wanted = wordsIn(search.toLowerCase());
  const scoreOf = (place: number): number => corpus.scoreOf(scored, place) ?? 0;
  const isScored = corpus.arms.includes(scored);
  const places = upTo(corpus.pairs.length).filter((place) => {
    const { source, reference } = corpus.pairs[place]!;
    const texts = [source, reference, ...corpus.arms.map((arm) => corpus.translationOf(arm, place))].join(" ").toLowerCase();
    return wanted.every((word) => texts.includes(word))
      && isWithin(wordsIn(source).length, shortest, longest)
      && (!isScored || isWithin(scoreOf(place), lowest, highest));
  });
  if (isScored && order !== "line") places.sort((a, b) => (scoreOf(a) - scoreOf(b)) * (order === "up" ? 1 : -1));
  return places;
}

export class SentenceFinder extends Part {
  static override properties = { corpus: { attribute: false }, filters: { attribute: false }, place: { attribute: false } };
  declare corpus: Corpus;
  declare filters: Filters;
  declare place: number; // of the chosen pair

  protected override render(): TemplateResult {
    const { corpus, filters, place } = this;
    const places = found(corpus, filters);
    const number = (count: number): string => count.toLocaleString("en");
    return html`<form id="chooser" class="controls" role="search" @submit=${(event: Event) => event.preventDefault()} @input=${this.filter}>
        <label>Search <input type="search" id="search" autocomplete="off" placeholder="words of source, reference or output"
          .value=${filters.search}></label>
        <fieldset><legend>Source length</legend> ${this.limits("shortest", "longest", 1)}</fieldset>
        ${corpus.arms.length === 0 ? nothing : html`<fieldset><legend>${corpus.metric} of</legend>
          ${this.options("scored", "Filter by the score of this arm", corpus.arms.map((arm) => [arm, arm]))}
          ${this.limits("lowest", "highest")}
          <label>order ${this.options("order", "Order", Object.entries(ORDERS))}</label></fieldset>`}
      </form>
      <p class="hint"><output id="count" for="search shortest longest lowest highest">${number(places.length)} of ${number(corpus.pairs.length)} sentences.${
        places.length > 0 ? nothing : ` No sentence fits the search and its limits; sentence ${corpus.pairs[place]!.line} is still shown.`}</output></p>
      <select id="sentence" size="4" ?hidden=${places.length === 0} aria-label="Sentences found" @change=${this.choose}>${places.map((each) =>
        option(each, this.name(each), each === place))}</select>`;
  }

  private name(place: number): string {
    const { line, source } = this.corpus.pairs[place]!;
    const score = this.corpus.scoreOf(this.filters.scored, place);
    const seen = this.corpus.seenOf(place);
    const length = seen === null ? `${wordsIn(source).length} words` : seen.seconds === null ? `${seen.positions} positions` : `${fixed(seen.seconds, 1)} s`;
    return [line, length, ...(score === undefined ? [] : [fixed(score, 1)]), source].join(" · ");
  }

  private limits(low: keyof Filters, high: keyof Filters, least?: number): TemplateResult {
    const field = (id: keyof Filters): TemplateResult =>
      html`<input type="number" id=${id} min=${least ?? nothing} step=${least ?? "any"} .value=${this.filters[id]}>`;
    return html`<label>from ${field(low)}</label> <label>to ${field(high)}</label>`;
  }

  private options(id: keyof Filters, name: string, options: readonly (readonly [string, string])[]): TemplateResult {
    return html`<select id=${id} aria-label=${name}>${options.map(([value, text]) => option(value, text, value === this.filters[id]))}</select>`;
  }

  private filter({ target }: Event): void {
    const { id, value } = target as HTMLInputElement | HTMLSelectElement;
    this.ask("change-filters", { ...this.filters, [id]: value });
  }

  private choose({ target }: Event): void {
    this.ask("choose-sentence", Number((target as HTMLSelectElement).value));
  }
}

customElements.define("sentence-finder", SentenceFinder);
