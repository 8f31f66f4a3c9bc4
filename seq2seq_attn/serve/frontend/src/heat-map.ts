/** Attention weights as a matrix: a row for each target token, a column for each source token. */

import { html, nothing, type PropertyValues, svg, type TemplateResult } from "lit";
import { withWeights } from "./edits.ts";
import { END, share } from "./format.ts";
import "./heat-map.css";
import "./shared.css";
import { partSize } from "./layout.ts";
import { largest, upTo } from "./numbers.ts";
import { Part, pointIn, reveal } from "./part.ts";
import { Room } from "./room.ts";
import "./scroll-box.ts";
import { cells } from "./shades.ts";
import { textWidth } from "./text-width.ts";

const LARGE = 700; // pixels; a wider map can be scaled down
const RIGHT = 8; // pixels beside the cells
const DRAG = 120; // pixels of a drag from a weight of 0 to 1
const CELL = { least: 13, most: 64 }; // pixels
const WIDTH = 420; // until the room is known
const GLOSS = { gap: 5, scale: 0.85 }; // between a token and its gloss, and the size of the gloss

export type Row = number[] | null;
export const NO_GLOSSES: ReadonlyMap<string, string> = new Map();

interface Cell {
  step: number;
  token: number;
}

export interface Languages {
  source: string; // their codes
  target: string;
}

export class HeatMap extends Part {
  static override properties = {
    model: {},
    source: { attribute: false },
    target: { attribute: false },
    weights: { attribute: false },
    baseline: { attribute: false },
    edited: { attribute: false },
    links: { attribute: false },
    languages: { attribute: false },
    glosses: { attribute: false },
    isFixed: { attribute: false },
    focusStep: { attribute: false },
    fits: { state: true },
    pointed: { state: true },
  };
  declare model: string;
  declare source: readonly string[];
  declare target: readonly string[];
  declare weights: readonly Row[];
  declare baseline: readonly Row[]; // the weights without edits, of the same steps
  declare edited: ReadonlySet<number>;
  declare links: readonly (readonly [number, number])[]; // gold: source token, target token
  declare languages: Languages;
  declare glosses: ReadonlyMap<string, string>; // English, of tokens
  declare isFixed: boolean; // whether no weight can be dragged
  declare focusStep: number | null;
  declare fits: boolean; // whether the map is scaled down to the window
  declare pointed: Cell | null; // the cell below the pointer
  private readonly room = new Room(this, WIDTH);
  private cell = 0; // pixels
  private margin = { left: 0, top: 0 }; // where cells begin: beside the target tokens, and below the source tokens
  private drag: (Cell & { y: number; row: number[]; moved: boolean }) | null = null;

  constructor() {
    super();
    this.baseline = [];
    this.edited = new Set();
    this.links = [];
    this.languages = { source: "", target: "" };
    this.glosses = NO_GLOSSES;
    this.isFixed = false;
    this.fits = false;
    this.pointed = null;
  }

  /** Measured once for each drawing: every cell asks for its size. */
  protected override willUpdate(): void {
    this.margin = { left: this.widest(this.target) + 22, top: Math.min(170, this.widest(this.source) + 14) };
    this.cell = partSize(this.room.width - this.margin.left - RIGHT, this.source.length, CELL.least, CELL.most);
  }

  /** The left side of a column, and the top of a row. */
  private readonly x = (token: number): number => this.margin.left + token * this.cell;
  private readonly y = (step: number): number => this.margin.top + step * this.cell;

  private widest(tokens: readonly string[]): number {
    return Math.ceil(Math.max(0, ...tokens.map((token) => {
      const gloss = this.glosses.get(token);
      return textWidth(token) + (gloss === undefined ? 0 : GLOSS.gap + GLOSS.scale * textWidth(gloss));
    })));
  }

  private label(token: string): TemplateResult | string {
    const gloss = this.glosses.get(token);
    return gloss === undefined ? token : svg`${token}<tspan class="gloss" lang="en" dx=${GLOSS.gap}>${gloss}</tspan>`;
  }

  protected override render(): TemplateResult | typeof nothing {
    if (this.weights.every((row) => row === null)) return nothing;
    const { cell, margin, source, target, x, y } = this;
    const [width, height] = [x(source.length) + RIGHT, y(target.length) + 8];
    const focused = this.focusStep !== null && this.focusStep < target.length ? this.focusStep : null;
    return html`<scroll-box class="scroll" tabindex="0" role="region" aria-label="Heat map of ${this.model}; arrow keys choose a step"
        @keydown=${this.step} @scroll=${this.keepLabels}>
      <svg class="heat-map ${cell < 16 ? "dense" : ""} ${this.fits ? "fits" : ""} ${this.isFixed ? "fixed" : ""}" width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="img"
        aria-label=${this.summary()} @pointerdown=${this.press} @pointermove=${this.move} @pointerup=${this.release}
        @pointercancel=${this.release} @pointerleave=${() => (this.pointed = null)}>
        <g class="columns" lang=${this.languages.source}>${source.map((token, j) => svg`
          <text transform="translate(${x(j + 0.5) + 4},${margin.top - 6}) rotate(-90)" class=${token === END ? "end" : ""}>${this.label(token)}</text>`)}
        </g>
        <g transform="translate(${margin.left},${margin.top}) scale(${cell})">${cells(
          this.weights.flatMap((row) => row ?? source.map(() => 0)), target.length)}</g>
        <path class="lattice" d=${this.lattice()} />
        ${cell >= 34 ? svg`<g class="values">${this.values()}</g>` : nothing}
        <path class="gold" d=${this.outlines(this.links.map(([j, i]) => [i, j]), 1)} />
        <path class="changed" d=${this.outlines(this.changes(), 1.5)} />
        ${focused === null ? nothing : svg`
          <rect class="now" x=${margin.left} y=${y(focused)} width=${cell * source.length} height=${cell} />`}
        <g class="rows" lang=${this.languages.target}>
          <rect class="ground" y=${margin.top} width=${margin.left - 1} height=${cell * target.length} />
          ${target.map((token, i) => svg`<text x=${margin.left - 8} y=${y(i + 0.5)} dy="0.35em" text-anchor="end"
            class="${i === focused ? "now" : ""} ${token === END ? "end" : ""}">${this.label(token)}</text>`)}
          ${[...this.edited].filter((i) => i < target.length).map((i) => svg`
            <circle class="touched" cx=${margin.left - 3} cy=${y(i + 0.5)} r="2.5" />`)}
        </g>
      </svg>
    </scroll-box>
    <p class="note readout" aria-hidden="true">${this.readout()}</p>
    ${width < LARGE ? nothing : html`<label class="check"><input type="checkbox" .checked=${this.fits}
      @change=${() => (this.fits = !this.fits)}>Fit into the window</label>`}`;
  }

  protected override updated(changed: PropertyValues): void {
    const row = this.weights[this.focusStep ?? -1];
    const scroller = this.querySelector("scroll-box");
    if (!changed.has("focusStep") || !row || !scroller || this.fits) return;
    reveal(scroller, this.x(largest(row) + 0.5));
  }

  /** Target tokens stay in view while a large map is scrolled. */
  private keepLabels(event: Event): void {
    const { scrollLeft } = event.currentTarget as Element;
    this.querySelector(".rows")?.setAttribute("transform", `translate(${this.fits ? 0 : scrollLeft},0)`);
  }

  private readout(): TemplateResult | typeof nothing {
    const { step, token } = this.pointed ?? { step: -1, token: -1 };
    const weight = this.weights[step]?.[token];
    if (weight === undefined) return nothing;
    return html`<bdi lang=${this.languages.target}>${this.target[step]}</bdi> reads
      <bdi lang=${this.languages.source}>${this.source[token]}</bdi>: ${share(weight)}`;
  }

  private summary(): string {
    const size = `${this.target.length} target tokens by ${this.source.length} source tokens`;
    return `Attention weights, ${size}. The numbers of a step are in the table of the step.`;
  }

  private lattice(): string {
    const { cell, margin, source, target, x, y } = this;
    const across = upTo(target.length + 1).map((i) => `M${margin.left},${y(i)}h${cell * source.length}`);
    const down = upTo(source.length + 1).map((j) => `M${x(j)},${margin.top}v${cell * target.length}`);
    return [...across, ...down].join("");
  }

  private values(): TemplateResult[] {
    return this.weights.flatMap((row, i) =>
      (row ?? []).flatMap((weight, j) =>
        weight < 0.005 ? [] : [svg`
          <text x=${this.x(j + 0.5)} y=${this.y(i + 0.5)} dy="0.35em" text-anchor="middle"
            class=${weight > 0.5 ? "on-dark" : ""}>${weight.toFixed(2).replace(/^0/, "")}</text>`],
      ),
    );
  }

  /** The cells whose weights differ from those without edits, at the edited steps. */
  private changes(): [number, number][] {
    return [...this.edited].flatMap((i) =>
      (this.weights[i] ?? []).flatMap((weight, j): [number, number][] =>
        Math.abs(weight - (this.baseline[i]?.[j] ?? weight)) >= 0.005 ? [[i, j]] : [],
      ),
    );
  }

  private outlines(places: [number, number][], inset: number): string {
    const size = this.cell - 2 * inset;
    return places
      .filter(([i, j]) => i < this.target.length && j < this.source.length)
      .map(([i, j]) => `M${this.x(j) + inset},${this.y(i) + inset}h${size}v${size}h${-size}z`)
      .join("");
  }

  /** The cell below the pointer; the label of a row is a cell before its first. */
  private at(event: PointerEvent): Cell | null {
    const [x, y] = pointIn(event.currentTarget as SVGSVGElement, event);
    const step = Math.floor((y - this.margin.top) / this.cell);
    const token = Math.floor((x - this.margin.left) / this.cell);
    const isInside = step >= 0 && step < this.target.length && token < this.source.length;
    return isInside ? { step, token } : null;
  }

  private press(event: PointerEvent): void {
    const place = this.at(event);
    if (!place || event.button !== 0) return;
    this.ask("focus-step", { model: this.model, step: place.step });
    const row = this.weights[place.step];
    // A finger scrolls; it draws weights in the row below the map.
    if (this.isFixed || !row || place.token < 0 || event.pointerType === "touch") return;
    this.drag = { ...place, y: event.clientY, row: [...row], moved: false };
    (event.currentTarget as SVGElement).setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  private move(event: PointerEvent): void {
    const place = this.at(event);
    if (place?.step !== this.pointed?.step || place?.token !== this.pointed?.token) this.pointed = place;
    if (!this.drag) return;
    const { step, token, y, row } = this.drag;
    this.drag.moved ||= Math.abs(event.clientY - y) > 3;
    if (!this.drag.moved) return;
    const weight = Math.min(1, Math.max(0, row[token]! + (y - event.clientY) / DRAG));
    this.ask("set-row", { model: this.model, step, weights: withWeights(row, new Map([[token, weight]]), true) });
  }

  private release(): void {
    this.drag = null;
  }

  private step(event: KeyboardEvent): void {
    const now = this.focusStep ?? -1;
    const last = this.target.length - 1;
    const step = { ArrowDown: now + 1, ArrowUp: Math.max(now, 1) - 1, Home: 0, End: last }[event.key];
    if (step === undefined || step > last || step === this.focusStep) return;
    event.preventDefault();
    this.ask("focus-step", { model: this.model, step });
  }
}

customElements.define("heat-map", HeatMap);
