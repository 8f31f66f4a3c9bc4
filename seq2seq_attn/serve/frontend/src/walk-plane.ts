/** The query, the keys and the context as arrows in a plane; query and keys can be dragged. */

import { scaleLinear } from "d3-scale";
import { html, nothing, svg, type TemplateResult } from "lit";
import { Part } from "./part.ts";
import type { Vector } from "./walk-math.ts";
import { WORDS } from "./walk-state.ts";

const SIZE = 380;
export const REACH = 3; // of both axes
const x = scaleLinear([-REACH, REACH], [0, SIZE]);
const y = scaleLinear([-REACH, REACH], [SIZE, 0]);

export class WalkPlane extends Part {
  static override properties = {
    query: { attribute: false },
    keys: { attribute: false },
    weights: { attribute: false },
    context: { attribute: false },
  };
  declare query: Vector;
  declare keys: readonly Vector[];
  declare weights: Vector;
  declare context: Vector;
  private dragged: number | null = null; // -1: the query

  protected override render(): TemplateResult {
    const ticks = x.ticks(6);
    return html`<svg class="plane" viewBox="0 0 ${SIZE} ${SIZE}" role="img" @pointermove=${this.move} @pointerup=${this.lift} @pointercancel=${this.lift}
      aria-label="Query, keys and context in a plane; the sliders move them, too">
      <path class="lattice" d=${ticks.map((each) => `M${x(each)},0V${SIZE}M0,${y(each)}H${SIZE}`).join("")} />
      <path class="axis" d="M${x(0)},0V${SIZE}M0,${y(0)}H${SIZE}" />
      ${this.keys.map((key, j) => svg`<path class="arrow key" stroke-width=${1 + 7 * Math.min(1, this.weights[j]!)} d="M${x(0)},${y(0)}L${x(key[0]!)},${y(key[1]!)}" />`)}
      <path class="arrow query" d="M${x(0)},${y(0)}L${x(this.query[0]!)},${y(this.query[1]!)}" />
      <path class="arrow context" d="M${x(0)},${y(0)}L${x(this.context[0]!)},${y(this.context[1]!)}" />
      <circle class="context" cx=${x(this.context[0]!)} cy=${y(this.context[1]!)} r="5" />
      ${this.label("C", this.context, "context")}
      ${this.keys.map((key, j) => this.handle(key, j, WORDS[j]!))}
      ${this.handle(this.query, -1, "q")}
    </svg>`;
  }

  private handle(vector: Vector, place: number, label: string): TemplateResult {
    const kind = place < 0 ? "query" : "key";
    return svg`<circle class="handle ${kind}" data-place=${place} cx=${x(vector[0]!)} cy=${y(vector[1]!)} r="8"
      @pointerdown=${(event: PointerEvent) => this.press(event, place)} />${this.label(label, vector, kind)}`;
  }

  private label(text: string, [a, b]: Vector, kind: string): TemplateResult | typeof nothing {
    const length = Math.hypot(a!, b!) || 1;
    const [across, up] = [(14 * a!) / length, (18 * b!) / length]; // outwards, clear of the arrow
    return svg`<text class=${kind} x=${x(a!) + across} y=${y(b!) - up + 5} text-anchor=${a! < -0.3 * length ? "end" : a! > 0.3 * length ? "start" : "middle"}>${text}</text>`;
  }

  private press(event: PointerEvent, place: number): void {
    this.dragged = place;
    this.querySelector("svg")!.setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  private move(event: PointerEvent): void {
    if (this.dragged === null) return;
    const box = this.querySelector("svg")!.getBoundingClientRect();
    const near = (value: number): number => Math.max(-REACH, Math.min(REACH, Math.round(value * 20) / 20));
    const vector = [
      near(x.invert(((event.clientX - box.left) / box.width) * SIZE)),
      near(y.invert(((event.clientY - box.top) / box.height) * SIZE)),
    ];
    this.dispatchEvent(new CustomEvent("move-vector", { detail: { place: this.dragged, vector }, bubbles: true }));
  }

  private lift(): void {
    this.dragged = null;
  }
}

customElements.define("walk-plane", WalkPlane);
