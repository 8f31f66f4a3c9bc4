/** Attention as bands between the two sentences: the wider, the larger the weight. */

import { scaleSqrt } from "d3-scale";
import { linkVertical } from "d3-shape";
import { html, nothing, svg, type TemplateResult } from "lit";
import { END } from "./format.ts";
import type { Labels, Row } from "./heat-map.ts";
import { Part } from "./part.ts";
import { textWidth } from "./text-width.ts";

const GAP = { least: 14, most: 44 }; // between tokens: short sentences spread over WIDTH
const WIDTH = 560;
const HEIGHT = 150;
const LEAST = 0.03; // smaller weights are not drawn
const width = scaleSqrt([0, 1], [0, 12]);
const opacity = scaleSqrt([0, 1], [0.08, 0.5]);

interface Line {
  centres: number[];
  length: number;
}

function line(tokens: readonly string[]): Line {
  const widths = tokens.map((token) => Math.max(16, 1.15 * textWidth(token)));
  const room = (WIDTH - widths.reduce((sum, each) => sum + each, 0)) / Math.max(1, tokens.length);
  const gap = Math.min(GAP.most, Math.max(GAP.least, room));
  let length = 0;
  const centres = widths.map((own) => {
    length += own + gap;
    return length - gap / 2 - own / 2;
  });
  return { centres, length };
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
  declare hovered: { side: "source" | "target"; place: number } | null;

  constructor() {
    super();
    this.hovered = null;
  }

  protected override render(): TemplateResult | typeof nothing {
    const above = line(this.source);
    const below = line(this.target);
    const size = Math.max(above.length, below.length);
    const from = above.centres.map((x) => x + (size - above.length) / 2);
    const to = below.centres.map((x) => x + (size - below.length) / 2);
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Bands between the sentences">
      <svg class="bands" width=${size} height=${HEIGHT + 50} viewBox="0 0 ${size} ${HEIGHT + 50}" role="img"
        aria-label="Bands from source tokens to target tokens, as wide as the attention weights">
        <g class="links">${this.links(from, to)}</g>
        <g lang=${this.languages.source}>${this.tokens("source", this.source, from, 18)}</g>
        <g lang=${this.languages.target}>${this.tokens("target", this.target, to, HEIGHT + 38)}</g>
      </svg>
    </div>`;
  }

  private tokens(side: "source" | "target", tokens: readonly string[], centres: readonly number[], y: number): TemplateResult[] {
    return tokens.map((token, place) => {
      const isNow = side === "target" && place === this.focusStep;
      return svg`<text x=${centres[place]} y=${y} text-anchor="middle"
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
