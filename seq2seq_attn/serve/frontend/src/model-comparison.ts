/** Models on one scale, step by step: the probability of each token, and where the weights of two models differ. */

import { html, nothing, svg, type TemplateResult } from "lit";
import { type Column, columnsOf, type Difference, differencesOf } from "./comparison.ts";
import { figureButtons } from "./download.ts";
import { END, fixed, share } from "./format.ts";
import { LONG, partSize } from "./layout.ts";
import { Part, pointIn } from "./part.ts";
import type { View } from "./reading.ts";
import { Room } from "./room.ts";
import "./scroll-box.ts";
import type { Pane } from "./session.ts";
import { cells } from "./shades.ts";
import { widest } from "./text-width.ts";

const WIDTH = 600; // until the room is known
const [LEFT, TOP, HEIGHT] = [34, 8, 110]; // of the bars
const MOST = 90; // of a column
const CELL = { least: 13, most: 40 };

/** A model that is shown, with the number of its color. */
export interface Compared {
  pane: Pane;
  name: string;
  color: number;
  view: View;
}

export class ModelComparison extends Part {
  static override properties = {
    models: { attribute: false },
    step: { attribute: false },
    version: { attribute: false },
    pointed: { state: true },
  };
  declare models: readonly Compared[];
  declare step: number | null; // of the first model
  declare version: number;
  declare pointed: string; // what is said of the cell below the pointer
  private readonly room = new Room(this, WIDTH);

  constructor() {
    super();
    this.pointed = "";
  }

  protected override render(): TemplateResult | typeof nothing {
    const models = this.models.filter(({ pane }) => pane.current !== null && pane.current.steps.length > 0);
    if (models.length < 2) return nothing;
    const attending = models.filter(({ pane }) => pane.attends);
    return html`<section class="pane" aria-label="Models compared"><h2>Step by step</h2>
      <div class="side-by-side ${this.isLong ? "long" : ""}">${this.probabilities(models)} ${attending.length < 2 ? nothing : this.differences(attending[0]!, attending[1]!)}</div>
    </section>`;
  }

  private key({ name, color }: Compared): TemplateResult {
    return html`<span class="s${color}"><span class="swatch"></span> ${name}</span>`;
  }

  private probabilities(models: readonly Compared[]): TemplateResult {
    const columns = columnsOf(models.map(({ pane }) => pane.current!));
    const least = widest(columns.flatMap((column) => column.flatMap((cell) => cell?.token ?? []))) + 8;
    const size = partSize(this.figureWidth - LEFT, columns.length, Math.min(least, MOST), MOST);
    const [width, bottom] = [LEFT + size * columns.length, TOP + HEIGHT];
    const labels = 18 * models.length;
    const bar = (size - 8) / models.length;
    return html`<figure><figcaption>Probability of each token <small>${models.map((each) => this.key(each))}</small>
        ${figureButtons("probabilities", () => this.querySelector("svg.probabilities"))}</figcaption>
      <scroll-box class="scroll" tabindex="0" role="region" aria-label="Probabilities of the models">
      <svg class="probabilities" width=${width} height=${bottom + labels + 8} viewBox="0 0 ${width} ${bottom + labels + 8}" role="img"
        aria-label="Probability of each token, by model">
        ${[0, 0.5, 1].map((p) => svg`<path class="axis" d="M${LEFT},${bottom - HEIGHT * p}H${width}" />
          <text class="end" x=${LEFT - 6} y=${bottom - HEIGHT * p} dy="0.35em" text-anchor="end">${fixed(p, 1)}</text>`)}
        ${columns.map((column, place) => this.column(column, models, LEFT + place * size + 4, bar, bottom))}
      </svg></scroll-box></figure>`;
  }

  private column(column: Column, models: readonly Compared[], x: number, bar: number, bottom: number): (TemplateResult | typeof nothing)[] {
    return column.map((cell, number) => {
      if (!cell) return nothing;
      const { pane, name, color } = models[number]!;
      const isNow = number === 0 && cell.step === this.step;
      return svg`<g class="s${color}" @click=${() => this.ask("focus-step", { model: pane.info.name, step: cell.step })}>
        <rect class="bar" x=${x + number * bar} y=${bottom - HEIGHT * cell.probability} width=${Math.max(2, bar - 1)}
          height=${HEIGHT * cell.probability}><title>${name}, ${cell.token}: ${share(cell.probability)}</title></rect>
        <text lang=${pane.info.target} class="${cell.token === END ? "end" : ""} ${isNow ? "now" : ""}"
          x=${x + (bar * models.length) / 2} y=${bottom + 16 + 18 * number} text-anchor="middle">${cell.token}</text></g>`;
    });
  }

  private differences(first: Compared, second: Compared): TemplateResult {
    const { source } = first.pane.current!;
    const found = differencesOf(first.pane.current!, second.pane.current!, [first.view, second.view]);
    const caption = html`Difference of weights <small>${this.key(first)} reads more, ${this.key(second)} reads more</small>`;
    if (!found) return html`<figure><figcaption>${caption}</figcaption><p class="note">These two read other tokens, or no step of both has weights.</p></figure>`;
    const left = Math.max(40, widest(found.map(({ token }) => token)) + 12);
    const top = Math.min(150, widest(source) + 14);
    const cell = partSize(this.figureWidth - left - 8, source.length, CELL.least, CELL.most);
    const [width, height] = [left + cell * source.length + 8, top + cell * found.length + 8];
    const signed = (sign: number): TemplateResult[] =>
      cells(found.flatMap(({ values }) => values.map((value) => Math.max(0, sign * value))), found.length);
    return html`<figure><figcaption>${caption} ${figureButtons("difference", () => this.querySelector("svg.difference"))}</figcaption>
      <scroll-box class="scroll" tabindex="0" role="region" aria-label="Difference of weights">
      <svg class="difference" width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="img"
        aria-label="Weights of ${first.name} minus weights of ${second.name}"
        @pointermove=${(event: PointerEvent) => this.point(event, found, source, [left, top, cell])} @pointerleave=${() => (this.pointed = "")}>
        <g lang=${first.pane.info.source}>${source.map((token, j) => svg`<text class=${token === END ? "end" : ""}
          transform="translate(${left + (j + 0.5) * cell + 4},${top - 6}) rotate(-90)">${token}</text>`)}</g>
        <rect class="ground" x=${left} y=${top} width=${cell * source.length} height=${cell * found.length} />
        <g class="s${first.color}" transform="translate(${left},${top}) scale(${cell})">${signed(1)}</g>
        <g class="s${second.color}" transform="translate(${left},${top}) scale(${cell})">${signed(-1)}</g>
        <g lang=${first.pane.info.target}>${found.map(({ token, step }, i) => svg`<text x=${left - 8} y=${top + (i + 0.5) * cell} dy="0.35em"
          text-anchor="end" class="${token === END ? "end" : ""} ${step === this.step ? "now" : ""}">${token}</text>`)}</g>
      </svg></scroll-box><p class="note readout" aria-hidden="true">${this.pointed}</p></figure>`;
  }

  private get isLong(): boolean {
    return this.models.some(({ pane }) => Math.max(pane.current?.steps.length ?? 0, pane.current?.source.length ?? 0) > LONG);
  }

  /** The room of a figure: half of the section where both stand side by side. */
  private get figureWidth(): number {
    return this.isLong || this.room.width < 700 ? this.room.width : (this.room.width - 32) / 2;
  }

  private point(event: PointerEvent, found: readonly Difference[], source: readonly string[], [left, top, cell]: readonly [number, number, number]): void {
    const [x, y] = pointIn(event.currentTarget as SVGSVGElement, event);
    const row = found[Math.floor((y - top) / cell)];
    const place = Math.floor((x - left) / cell);
    const value = row?.values[place];
    this.pointed = value === undefined ? "" : `${row!.token}, ${source[place]}: ${value > 0 ? "+" : ""}${fixed(value, 3)}`;
  }
}

customElements.define("model-comparison", ModelComparison);
