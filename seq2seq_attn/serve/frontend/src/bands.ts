/**
 * Attention as bands between the two sentences: the wider, the larger the weight. A source word that is dragged to another
 * one gives it its weight at the chosen step.
 */

import { scaleSqrt } from "d3-scale";
import { linkVertical } from "d3-shape";
import { html, nothing, svg, type TemplateResult } from "lit";
import { movedWeight } from "./edits.ts";
import { END } from "./format.ts";
import { type Languages, NO_GLOSSES, type Row } from "./heat-map.ts";
import { centers, nearest, widthOfSides } from "./layout.ts";
import { Part, pointIn, reveal } from "./part.ts";
import { Room } from "./room.ts";
import "./scroll-box.ts";
import { tokenWidths } from "./text-width.ts";

const WIDTH = 420; // until the room is known
const HEIGHT = { least: 180, most: 340, share: 0.85 }; // of the bands; the share is of the room
const ABOVE = 30; // for the source tokens
const BELOW = { token: 24, gloss: 18 };
const LEAST = 0.03; // smaller weights are not drawn
const width = scaleSqrt([0, 1], [0, 14]);
const opacity = scaleSqrt([0, 1], [0.1, 0.55]);

export class AttentionBands extends Part {
  static override properties = {
    model: {},
    source: { attribute: false },
    target: { attribute: false },
    weights: { attribute: false },
    edited: { attribute: false },
    languages: { attribute: false },
    glosses: { attribute: false },
    focusStep: { attribute: false },
    most: { attribute: false },
    hovered: { state: true },
    drag: { state: true },
  };
  declare model: string;
  declare source: readonly string[];
  declare target: readonly string[];
  declare weights: readonly Row[];
  declare edited: ReadonlySet<number>;
  declare languages: Languages;
  declare glosses: ReadonlyMap<string, string>; // English, of tokens
  declare focusStep: number | null;
  declare most: number; // pixels from the source to the target
  declare hovered: { side: "source" | "target"; place: number } | null;
  declare drag: Drag | null;
  private revealed = ""; // what the figure was scrolled to
  private readonly room = new Room(this, WIDTH);

  constructor() {
    super();
    this.glosses = NO_GLOSSES;
    this.most = HEIGHT.most;
    this.hovered = null;
    this.drag = null;
  }

  private get height(): number {
    return Math.min(this.most, Math.max(HEIGHT.least, HEIGHT.share * this.room.width));
  }

  protected override render(): TemplateResult | typeof nothing {
    const [above, below] = [tokenWidths(this.source, this.glosses), tokenWidths(this.target, this.glosses)];
    const size = widthOfSides([above, below], this.room.width);
    const [from, to] = [centers(above, size), centers(below, size)];
    const hasGlosses = this.target.some((token) => this.glosses.has(token));
    const height = ABOVE + this.height + BELOW.token + (hasGlosses ? BELOW.gloss : 0);
    return html`<scroll-box class="scroll" tabindex="0" role="region" aria-label="Bands between the sentences">
      <svg class="bands ${this.drag ? "dragged" : ""}" width=${size} height=${height} viewBox="0 0 ${size} ${height}" role="img"
        aria-label="Bands from source tokens to target tokens, as wide as the attention weights"
        @pointermove=${(event: PointerEvent) => this.move(event, from)} @pointerup=${this.release}
        @pointercancel=${() => (this.drag = null)}>
        <g class="links">${this.links(from, to)}</g>
        ${this.drag ? this.dragged(this.drag, from, to) : nothing}
        <g lang=${this.languages.source}>${this.tokens("source", this.source, from, ABOVE - 10)}</g>
        <g lang=${this.languages.target}>${this.tokens("target", this.target, to, ABOVE + this.height + 18)}</g>
      </svg>
    </scroll-box>`;
  }

  protected override updated(): void {
    const [now, key] = [this.querySelector("text.now"), `${this.focusStep} of ${this.target.length}`];
    if (now && key !== this.revealed) reveal(this.querySelector("scroll-box")!, Number(now.getAttribute("x")));
    this.revealed = key;
  }

  private tokens(side: "source" | "target", tokens: readonly string[], centers: readonly number[], y: number): TemplateResult[] {
    return tokens.map((token, place) => {
      const isNow = side === "target" ? place === this.focusStep : this.drag?.to === place;
      const gloss = side === "target" ? this.glosses.get(token) : undefined;
      return svg`<text x=${centers[place]} y=${y} text-anchor="middle" data-place=${place}
        class="${token === END ? "end" : ""} ${isNow ? "now" : ""} ${side}"
        @pointerenter=${() => (this.hovered = { side, place })} @pointerleave=${() => (this.hovered = null)}
        @pointerdown=${(event: PointerEvent) => side === "source" && this.press(event, place, this.focusStep)}
        @click=${() => side === "target" && this.ask("focus-step", { model: this.model, step: place })}>${token}</text>
        ${gloss === undefined ? nothing : svg`<text class="gloss" lang="en" x=${centers[place]} y=${y + BELOW.gloss} text-anchor="middle">${gloss}</text>`}`;
    });
  }

  /** A word, or one of its bands, is dragged by what a step reads of it. */
  private press(event: PointerEvent, from: number, step: number | null): void {
    if (event.button !== 0 || step === null || !this.weights[step]) return;
    const svg = this.querySelector("svg")!;
    const [x, y] = pointIn(svg, event);
    this.drag = { step, from, to: from, x, y };
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  private move(event: PointerEvent, centers: readonly number[]): void {
    if (!this.drag) return;
    const [x, y] = pointIn(this.querySelector("svg")!, event);
    this.drag = { ...this.drag, x, y, to: nearest(centers, x) };
  }

  private release(): void {
    if (!this.drag) return;
    const { step, from, to } = this.drag;
    this.drag = null;
    const row = this.weights[step];
    if (row && to !== from) this.ask("set-row", { model: this.model, step, weights: movedWeight(row, from, to) });
  }

  /** The band that follows the pointer. */
  private dragged({ step, x, y }: Drag, from: readonly number[], to: readonly number[]): TemplateResult {
    const end = Math.min(y, ABOVE + this.height / 2);
    return svg`<path class="link touched" stroke-width="6" stroke-opacity="0.6" stroke-dasharray="3 4"
        d=${linkVertical()({ source: [x, Math.max(ABOVE - 4, end)], target: [to[step]!, ABOVE + this.height] })} />
      <circle class="handle" cx=${from[this.drag!.to]} cy=${ABOVE - 2} r="4" />`;
  }

  /** The bands of what is pointed at, or of the chosen step, are dark; the others stay in the background. */
  private links(from: readonly number[], to: readonly number[]): TemplateResult[] {
    const draw = linkVertical();
    const isLit = (i: number, j: number): boolean => {
      if (this.hovered) return this.hovered.place === (this.hovered.side === "source" ? j : i);
      return i === this.focusStep;
    };
    const isAnyLit = this.hovered !== null || (this.focusStep !== null && this.focusStep < this.target.length);
    return this.weights.flatMap((row, i) =>
      (row ?? []).flatMap((weight, j) => {
        if (weight < LEAST || to[i] === undefined || from[j] === undefined) return [];
        const dimmed = isAnyLit && !isLit(i, j);
        return [svg`<path class="link ${this.edited.has(i) ? "touched" : ""}" stroke-width=${width(weight)}
          stroke-opacity=${dimmed ? opacity(weight) / 3 : opacity(weight) + (isAnyLit ? 0.25 : 0)}
          @pointerdown=${(event: PointerEvent) => this.press(event, j, i)}
          d=${draw({ source: [from[j]!, ABOVE - 4], target: [to[i]!, ABOVE + this.height] })} />`];
      }),
    );
  }
}

interface Drag {
  step: number;
  from: number; // source tokens
  to: number;
  x: number;
  y: number;
}

customElements.define("attention-bands", AttentionBands);
