/** Attention as bands between the two sentences: the wider, the larger the weight. */

import { scaleSqrt } from "d3-scale";
import { linkVertical } from "d3-shape";
import { html, nothing, svg, type TemplateResult } from "lit";
import { END } from "./format.ts";
import type { Labels, Row } from "./heat-map.ts";
import { Part, reveal } from "./part.ts";
import { textWidth } from "./text-width.ts";

const GAP = { least: 14, most: 44 }; // between the tokens of the longer sentence; the other one is spread as wide
const WIDTH = 560; // that a short sentence is spread over, if the page has it
const HEIGHT = 150;
const LEAST = 0.03; // smaller weights are not drawn
const width = scaleSqrt([0, 1], [0, 12]);
const opacity = scaleSqrt([0, 1], [0.08, 0.5]);

const widths = (tokens: readonly string[]): number[] => tokens.map((token) => Math.max(16, 1.15 * textWidth(token)));
const total = (all: readonly number[]): number => all.reduce((sum, each) => sum + each, 0);

/** The width of the figure: both sentences fit, and a short one is not spread too thin. */
function figureWidth(sides: readonly (readonly number[])[], room: number): number {
  const least = Math.max(...sides.map((side) => total(side) + GAP.least * side.length));
  const most = Math.max(...sides.map((side) => total(side) + GAP.most * side.length));
  return Math.max(least, Math.min(most, room, WIDTH));
}

/** Where tokens of these widths have their centers, evenly spread. */
function centers(side: readonly number[], size: number): number[] {
  const gap = (size - total(side)) / Math.max(1, side.length);
  let end = 0;
  return side.map((own) => {
    end += own + gap;
    return end - (own + gap) / 2;
  });
}

export class AttentionBands extends Part {
  static override properties = {
    model: {},
    source: { attribute: false },
    target: { attribute: false },
    weights: { attribute: false },
    edited: { attribute: false },
    languages: { attribute: false },
    focusStep: { attribute: false },
    hovered: { state: true },
  };
  declare model: string;
  declare source: readonly string[];
  declare target: readonly string[];
  declare weights: readonly Row[];
  declare edited: ReadonlySet<number>;
  declare languages: Labels;
  declare focusStep: number | null;
  private revealed = ""; // what the figure was scrolled to
  declare hovered: { side: "source" | "target"; place: number } | null;

  constructor() {
    super();
    this.hovered = null;
  }

  protected override render(): TemplateResult | typeof nothing {
    const [above, below] = [widths(this.source), widths(this.target)];
    const size = figureWidth([above, below], this.clientWidth || WIDTH);
    const [from, to] = [centers(above, size), centers(below, size)];
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Bands between the sentences">
      <svg class="bands" width=${size} height=${HEIGHT + 50} viewBox="0 0 ${size} ${HEIGHT + 50}" role="img"
        aria-label="Bands from source tokens to target tokens, as wide as the attention weights">
        <g class="links">${this.links(from, to)}</g>
        <g lang=${this.languages.source}>${this.tokens("source", this.source, from, 18)}</g>
        <g lang=${this.languages.target}>${this.tokens("target", this.target, to, HEIGHT + 38)}</g>
      </svg>
    </div>`;
  }

  protected override updated(): void {
    const [now, key] = [this.querySelector("text.now"), `${this.focusStep} of ${this.target.length}`];
    if (now && key !== this.revealed) reveal(this.querySelector(".scroll")!, Number(now.getAttribute("x")));
    this.revealed = key;
  }

  private tokens(side: "source" | "target", tokens: readonly string[], centers: readonly number[], y: number): TemplateResult[] {
    return tokens.map((token, place) => {
      const isNow = side === "target" && place === this.focusStep;
      return svg`<text x=${centers[place]} y=${y} text-anchor="middle"
        class="${token === END ? "end" : ""} ${isNow ? "now" : ""} ${side}"
        @pointerenter=${() => (this.hovered = { side, place })} @pointerleave=${() => (this.hovered = null)}
        @click=${() => side === "target" && this.ask("focus-step", { model: this.model, step: place })}>${token}</text>`;
    });
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
          d=${draw({ source: [from[j]!, 26], target: [to[i]!, HEIGHT + 22] })} />`];
      }),
    );
  }
}

customElements.define("attention-bands", AttentionBands);
