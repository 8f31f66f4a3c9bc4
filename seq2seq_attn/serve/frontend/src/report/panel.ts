/** One arm of the viewer: its translation, its heat map, and the numbers of the step. */

import { html, nothing, type TemplateResult } from "lit";
import { figureButtons } from "../download.ts";
import { fixed } from "../format.ts";
import "../heat-map.ts";
import { largest } from "../numbers.ts";
import { option } from "../option.ts";
import { Part } from "../part.ts";
import type { Seen } from "../source-picture.ts";
import { wordsIn } from "../sentences.ts";
import type { Corpus, View } from "./corpus.ts";
import type { Row, Shown } from "./merge.ts";
import "../source-picture.ts";

type Glosses = ReadonlyMap<string, string>;

/** A line of text with glosses under its words. */
export function glossed(line: string, glosses: Glosses): (TemplateResult | string)[] {
  return wordsIn(line).map((word) =>
    glosses.has(word) ? html`<ruby>${word}<rt lang="en">${glosses.get(word)}</rt></ruby> ` : `${word} `);
}

/** A list of options, one of which is chosen by its place. */
function choice(name: string, options: readonly string[], chosen: number, choose: (place: number) => void): TemplateResult {
  return html`<select aria-label=${name} @change=${({ target }: Event) => choose((target as HTMLSelectElement).selectedIndex)}>
    ${options.map((text, place) => option(place, text, place === chosen))}</select>`;
}

export class AttentionPanel extends Part {
  static override properties = {
    corpus: { attribute: false },
    place: { attribute: false },
    views: { attribute: false },
    view: { attribute: false },
    path: { attribute: false },
    shown: { attribute: false },
    step: { attribute: false },
    seen: { attribute: false },
    gold: { attribute: false },
  };
  declare corpus: Corpus;
  declare place: number; // of the sentence pair
  declare views: readonly View[]; // of all arms
  declare view: View;
  declare path: number; // of the view's translations
  declare shown: Shown;
  declare step: number;
  declare seen: Seen | null; // the source, unless it is text
  declare gold: readonly (readonly number[])[]; // of each row, positions of this source

  protected override render(): TemplateResult {
    const { corpus, place, view, views } = this;
    const translation = corpus.translationOf(view.arm, place);
    const paths = view.paths.map(({ name, score }) => (score === null ? name : `${name}, score ${fixed(score, 3)}`));
    return html`<div class="panel s${corpus.styleOf(view.arm) % 7}">
      <div class="choices">${choice("Arm", views.map(({ arm }) => arm), views.indexOf(view), (arm) => this.ask("choose-arm", arm))}
        ${paths.length > 1 ? choice("Output", paths, this.path, (path) => this.ask("choose-path", path)) : nothing}</div>
      ${translation === undefined ? nothing : html`<p class="text translation" dir="auto">${glossed(translation, corpus.glosses)}
        <small>${corpus.metric} ${fixed(corpus.scoreOf(view.arm, place)!, 1)}</small></p>`}
      ${this.shown.rows.some(({ weights }) => weights) ? this.attention() : html`
        <p class="hint">This arm does not attend to single positions of the source: there are no weights.</p>`}
    </div>`;
  }

  private attention(): TemplateResult {
    const { corpus, view, shown: { source, rows, links } } = this;
    const step = Math.min(this.step, rows.length - 1);
    const { token, p } = rows[step]!;
    const table = (): (string | number)[][] => [["target", ...source], ...rows.map((row) => [row.token, ...(row.weights ?? [])])];
    const name = `attention_${corpus.pairs[this.place]!.line}`;
    const figure = this.seen ? html`
      <source-picture .model=${view.arm} .seen=${this.seen} .grid=${view.grid} .rows=${rows} .gold=${this.gold} .focusStep=${step}></source-picture>` : html`
      <heat-map .isFixed=${true} .model=${view.arm} .source=${source} .target=${rows.map((row) => row.token)}
        .weights=${rows.map(({ weights }) => weights)} .links=${links} .glosses=${corpus.glosses} .focusStep=${step}></heat-map>`;
    return html`${figure}
      <p class="hint">Download ${figureButtons(name, this.seen ? null : () => this.querySelector("svg.heat-map"), table)}</p>
      <details class="numbers"><summary><h4 aria-live="polite"><bdi>${token}</bdi> is row ${step + 1} of ${rows.length}${
        p === null ? "" : `, p = ${fixed(p, 3)}`}</h4></summary>${this.numbers(rows[step]!)}</details>`;
  }

  private numbers({ weights, scores, shares }: Row): TemplateResult | typeof nothing {
    if (!weights) return nothing;
    const { source } = this.shown;
    const { glosses } = this.corpus;
    const top = largest(weights);
    const most = weights.filter((weight) => weight === weights[top]).length === 1 ? top : -1;
    const bar = (value: number, isMost: boolean): TemplateResult =>
      html`<td class="bar ${isMost ? "most" : ""}" style="--w:${value}">${fixed(value, 3)}</td>`;
    return html`<table class="weights">
      <thead><tr><th scope="col">source</th>${scores ? html`<th scope="col">score e</th>` : nothing}<th scope="col">weight a</th>${
        shares ? html`<th scope="col">share of C</th>` : nothing}</tr></thead>
      <tbody>${source.map((word, j) => html`<tr>
        <th scope="row"><bdi>${word}</bdi>${glosses.has(word) ? html`<small lang="en">${glosses.get(word)}</small>` : nothing}</th>
        ${scores ? html`<td>${fixed(scores[j]!, 2)}</td>` : nothing}
        ${bar(weights[j]!, j === most)}
        ${shares ? bar(shares[j]!, false) : nothing}</tr>`)}</tbody></table>`;
  }
}

customElements.define("attention-panel", AttentionPanel);
