/** The weights of a step as bars that can be dragged, or drawn by dragging across; each is a slider for the keyboard. */

import { scaleLinear } from "d3-scale";
import { html, nothing, type PropertyValues, svg, type TemplateResult } from "lit";
import { withWeights } from "./edits.ts";
import { END, share, spoken } from "./format.ts";
import { partSize } from "./layout.ts";
import { largest } from "./numbers.ts";
import { Part, pointIn, reveal } from "./part.ts";
import { Room } from "./room.ts";
import "./scroll-box.ts";
import { widest } from "./text-width.ts";

const BAR = { least: 14, most: 80 }; // pixels; what needs more room than there is scrolls
const WIDTH = 320; // until the room is known
const HEIGHT = 96;
const TOP = 8;
const height = scaleLinear([0, 1], [0, HEIGHT]).clamp(true);

export class RowEditor extends Part {
  static override properties = {
    model: {},
    step: { attribute: false },
    tokens: { attribute: false },
    language: {},
    weights: { attribute: false },
    baseline: { attribute: false },
    sumsToOne: { state: true },
    current: { state: true },
  };
  declare model: string;
  declare step: number;
  declare tokens: readonly string[];
  declare language: string;
  declare weights: readonly number[];
  declare baseline: readonly number[] | null; // without the edit, if the row is edited
  declare sumsToOne: boolean;
  declare current: number; // the token that Tab reaches
  private readonly room = new Room(this, WIDTH);
  private stroke: { row: readonly number[]; given: Map<number, number>; last: number; box: DOMRect } | null = null;

  constructor() {
    super();
    this.sumsToOne = true;
    this.current = 0;
  }

  protected override render(): TemplateResult {
    const bar = this.barWidth;
    const labels = Math.min(120, widest(this.tokens) + 10);
    const [width, bottom] = [bar * this.tokens.length, TOP + HEIGHT];
    return html`<scroll-box class="scroll">
        <svg class="row-editor" width=${width} height=${bottom + labels} viewBox="0 0 ${width} ${bottom + labels}"
          role="group" aria-label="Weights of this step" @pointerdown=${this.press} @pointermove=${this.draw}
          @pointerup=${this.lift} @pointercancel=${this.lift} @keydown=${this.keys}>
          <rect class="ground" x="0" y="0" width=${width} height=${bottom} />
          ${this.tokens.map((token, j) => this.bar(token, j, bar, bottom))}
          <path class="axis" d="M0,${bottom}H${width}" />
        </svg>
      </scroll-box>
      <label class="check"><input type="checkbox" .checked=${this.sumsToOne}
        @change=${(event: Event) => (this.sumsToOne = (event.target as HTMLInputElement).checked)}>
        The other weights share the rest, so that the row sums to 1</label>`;
  }

  protected override updated(changed: PropertyValues): void {
    if (changed.has("step")) reveal(this.querySelector("scroll-box")!, (largest(this.weights) + 0.5) * this.barWidth);
  }

  private get barWidth(): number {
    return partSize(this.room.width, this.tokens.length, BAR.least, BAR.most);
  }

  private bar(token: string, j: number, bar: number, bottom: number): TemplateResult {
    const weight = this.weights[j]!;
    const before = this.baseline?.[j];
    const isChanged = before !== undefined && Math.abs(weight - before) >= 0.005;
    const size = height(weight);
    return svg`<g role="slider" tabindex=${j === Math.min(this.current, this.tokens.length - 1) ? 0 : -1} data-token=${j}
        aria-label="Weight of ${spoken(token)}" aria-valuemin="0" aria-valuemax="1" aria-valuenow=${weight}
        aria-valuetext=${share(weight)} aria-orientation="vertical" @focus=${() => (this.current = j)}>
      <rect class="touch" x=${j * bar} y="0" width=${bar} height=${bottom} />
      <rect class="bar ${isChanged ? "changed" : ""}" x=${j * bar + 2} y=${bottom - size} width=${bar - 4} height=${size} />
      ${isChanged ? svg`<path class="before" d="M${j * bar + 1},${bottom - height(before)}h${bar - 2}" />` : nothing}
      <text lang=${this.language} class=${token === END ? "end" : ""} text-anchor="end"
        transform="translate(${(j + 0.5) * bar + 4},${bottom + 8}) rotate(-90)">${token}</text>
    </g>`;
  }

  /** The token and weight below the pointer. */
  private at(event: PointerEvent, box: DOMRect): [number, number] {
    const [x, y] = pointIn(this.querySelector("svg")!, event, box);
    const token = Math.floor(x / this.barWidth);
    return [Math.min(this.tokens.length - 1, Math.max(0, token)), height.invert(TOP + HEIGHT - y)];
  }

  private press(event: PointerEvent): void {
    const svg = this.querySelector("svg")!;
    const box = svg.getBoundingClientRect();
    if (event.button !== 0 || pointIn(svg, event)[1] > TOP + HEIGHT + 2) return;
    const [token] = this.at(event, box);
    // The page above may grow while weights change; the stroke keeps to where the bars stood when it began.
    this.stroke = { row: [...this.weights], given: new Map(), last: token, box };
    svg.setPointerCapture(event.pointerId);
    this.querySelector<SVGElement>(`[data-token="${token}"]`)?.focus({ preventScroll: true });
    event.preventDefault();
    this.draw(event);
  }

  /** Sets the weights of all tokens between the last position of the pointer and this one. */
  private draw(event: PointerEvent): void {
    if (!this.stroke) return;
    const [token, weight] = this.at(event, this.stroke.box);
    const { row, given, last } = this.stroke;
    const direction = Math.sign(token - last);
    for (let j = last; j !== token; j += direction) if (j !== last) given.set(j, weight);
    given.set(token, weight);
    this.stroke.last = token;
    this.send(withWeights(row, given, this.sumsToOne));
  }

  private lift(): void {
    this.stroke = null;
  }

  private keys(event: KeyboardEvent): void {
    const count = this.tokens.length;
    const at = Math.min(this.current, count - 1);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
    if (to !== undefined && to >= 0 && to < count) {
      this.querySelector<SVGElement>(`[data-token="${to}"]`)?.focus();
      event.preventDefault();
    }
    const weight = this.weights[at]!;
    const jumps: Record<string, number> = {
      ArrowUp: weight + 0.05, ArrowDown: weight - 0.05, PageUp: weight + 0.25, PageDown: weight - 0.25, Home: 0, End: 1,
    };
    const wanted = jumps[event.key];
    if (wanted === undefined) return;
    event.preventDefault();
    const clamped = Math.min(1, Math.max(0, wanted));
    this.send(withWeights(this.weights, new Map([[at, clamped]]), this.sumsToOne));
  }

  private send(weights: number[]): void {
    this.ask("set-row", { model: this.model, step: this.step, weights });
  }
}

customElements.define("row-editor", RowEditor);
