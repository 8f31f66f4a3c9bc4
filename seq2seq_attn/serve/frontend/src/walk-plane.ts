/** The query, the keys and the context as arrows in a plane; C is also shown as the sum of the arrows a_j v_j. */

import { type ScaleLinear, scaleLinear } from "d3-scale";
import { html, nothing, svg, type TemplateResult } from "lit";
import { fixed } from "./format.ts";
import { labelPlaces } from "./labels.ts";
import { Part, pointIn } from "./part.ts";
import { textWidth } from "./text-width.ts";
import { partialSums, type Vector } from "./walk-math.ts";

const SIZE = 380;
const PAD = 26; // around the axes, for labels of points at their ends
export const REACH = 3; // of both axes, where vectors are dragged
const ARROW = 450; // milliseconds for which an arrow of the sum grows
const LEAST = 3; // pixels; shorter arrows have no head

export class WalkPlane extends Part {
  static override properties = {
    words: { attribute: false },
    query: { attribute: false },
    keys: { attribute: false },
    weights: { attribute: false },
    context: { attribute: false },
    reach: { attribute: false },
    isFixed: { attribute: false },
    added: { state: true },
  };
  declare words: readonly string[]; // of the keys
  declare query: Vector | null; // null: it is not in this plane
  declare keys: readonly Vector[];
  declare weights: Vector;
  declare context: Vector;
  declare reach: number; // of both axes
  declare isFixed: boolean; // whether no vector can be dragged
  declare added: number | null; // arrows of the sum that are drawn; the last one may be a part. null: no sum
  private dragged: number | null = null; // -1: the query
  private frame = 0;

  constructor() {
    super();
    this.query = null;
    this.reach = REACH;
    this.isFixed = false;
    this.added = null;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    cancelAnimationFrame(this.frame);
  }

  /** Adds the arrows a_j v_j, one after the other; all at once where motion is not wanted. */
  play(): void {
    cancelAnimationFrame(this.frame);
    const all = this.keys.length;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.added = all;
      return;
    }
    this.added = 0;
    let start: number | null = null;
    const grow = (now: number): void => {
      start ??= now;
      this.added = Math.min(all, (now - start) / ARROW);
      if (this.added < all) this.frame = requestAnimationFrame(grow);
    };
    this.frame = requestAnimationFrame(grow);
  }

  /** Takes the arrows away. */
  clear(): void {
    cancelAnimationFrame(this.frame);
    this.added = null;
  }

  private get x(): ScaleLinear<number, number> {
    return scaleLinear([-this.reach, this.reach], [PAD, SIZE - PAD]);
  }

  private get y(): ScaleLinear<number, number> {
    return scaleLinear([-this.reach, this.reach], [SIZE - PAD, PAD]);
  }

  protected override render(): TemplateResult {
    const { x, y, added } = this;
    const ticks = scaleLinear([-this.reach, this.reach], [0, 1]).ticks(6);
    const arrow = (to: Vector): string => `M${x(0)},${y(0)}L${x(to[0]!)},${y(to[1]!)}`;
    return html`<svg class="plane ${this.isFixed ? "fixed" : ""}" viewBox="0 0 ${SIZE} ${SIZE}" role="img" @pointermove=${this.move} @pointerup=${this.lift}
      @pointercancel=${this.lift} aria-label=${this.summary()}>
      <path class="lattice" d=${ticks.map((each) => `M${x(each)},0V${SIZE}M0,${y(each)}H${SIZE}`).join("")} />
      <path class="axis" d="M${x(0)},0V${SIZE}M0,${y(0)}H${SIZE}" />
      ${this.keys.map((key, j) => svg`<path class="arrow key" stroke-width=${1 + (added === null ? 7 * Math.min(1, this.weights[j]!) : 0)} d=${arrow(key)} />`)}
      ${this.query ? svg`<path class="arrow query" d=${arrow(this.query)} />` : nothing}
      ${added === null ? svg`<path class="arrow context" d=${arrow(this.context)} />` : this.sum(added)}
      ${this.keys.map((key, j) => this.handle(key, j))}
      ${this.query ? this.handle(this.query, -1) : nothing}
      ${added === null || added >= this.keys.length ? svg`<circle class="context" cx=${x(this.context[0]!)} cy=${y(this.context[1]!)} r="5" />` : nothing}
      ${this.labels()}
    </svg>`;
  }

  private summary(): string {
    const [a, b] = this.context.map((each) => fixed(each, 2));
    return `The keys as arrows in a plane, and their weighted sum C = (${a}, ${b})${this.isFixed ? "" : "; the sliders move them, too"}`;
  }

  /** The arrows a_j v_j head to tail, as far as they are added. */
  private sum(added: number): TemplateResult[] {
    const { x, y } = this;
    const sums = partialSums(this.weights, this.keys);
    return this.keys.slice(0, Math.ceil(added)).map((_, j) => {
      const part = Math.min(1, added - j);
      const [from, whole] = [sums[j]!, sums[j + 1]!];
      const to = from.map((each, i) => each + part * (whole[i]! - each));
      const [a, b, c, d] = [x(from[0]!), y(from[1]!), x(to[0]!), y(to[1]!)];
      const length = Math.hypot(c - a, d - b);
      const [across, down] = [(c - a) / (length || 1), (d - b) / (length || 1)];
      const head = Math.min(7, length / 2);
      const side = (turn: number): string => `M${c},${d}l${head * (-across + 0.6 * turn * down)},${head * (-down - 0.6 * turn * across)}`;
      return svg`<path class="arrow context term" data-place=${j}
        d="M${a},${b}L${c},${d}${length > LEAST ? side(1) + side(-1) : ""}"><title>a · ${this.words[j]}</title></path>`;
    });
  }

  private handle(vector: Vector, place: number): TemplateResult {
    const [a, b] = [this.x(vector[0]!), this.y(vector[1]!)];
    const kind = place < 0 ? "query" : "key";
    return svg`<circle class="handle ${kind}" data-place=${place} cx=${a} cy=${b} r=${this.isFixed ? 5 : 8}
      @pointerdown=${(event: PointerEvent) => this.press(event, place)}><title>${place < 0 ? "q" : this.words[place]}</title></circle>`;
  }

  /** C and the query first, then the words, the one with the largest weight first. */
  private labels(): (TemplateResult | typeof nothing)[] {
    const words = this.keys.map((vector, j) => ({ text: this.words[j]!, vector, kind: "key", weight: this.weights[j]! }));
    const all = [
      { text: "C", vector: this.context, kind: "context" },
      ...(this.query ? [{ text: "q", vector: this.query, kind: "query" }] : []),
      ...words.sort((a, b) => b.weight - a.weight),
    ];
    const points = all.map(({ text, vector: [a, b] }) => ({
      x: this.x(a!), y: this.y(b!), width: 1.2 * textWidth(text) + 4, angle: Math.atan2(b!, a!),
    }));
    return labelPlaces(points, SIZE).map((spot, i) => (spot === null ? nothing : svg`
      <text class=${all[i]!.kind} x=${spot.x} y=${spot.y} dy="0.35em" text-anchor="middle">${all[i]!.text}</text>`));
  }

  private press(event: PointerEvent, place: number): void {
    if (this.isFixed) return;
    this.dragged = place;
    this.querySelector("svg")!.setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  private move(event: PointerEvent): void {
    if (this.dragged === null) return;
    const [x, y] = pointIn(this.querySelector("svg")!, event);
    const near = (value: number): number => Math.max(-this.reach, Math.min(this.reach, Math.round(20 * value) / 20));
    const vector = [near(this.x.invert(x)), near(this.y.invert(y))];
    this.ask("move-vector", { place: this.dragged, vector });
  }

  private lift(): void {
    this.dragged = null;
  }
}

customElements.define("walk-plane", WalkPlane);
