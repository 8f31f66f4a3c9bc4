/** A source that is not text, below the weights of one step, and the steps to choose from; a sound is played. */

import { html, nothing, svg, type TemplateResult } from "lit";
import { fixed } from "./format.ts";
import { ARROWS } from "./keys.ts";
import { sum } from "./numbers.ts";
import { Part } from "./part.ts";
import { cells } from "./shades.ts";
import "./source-picture.css";

const FOG = 0.84; // opacity over a cell without weight

/** A source that is not text. */
export interface SeenData {
  positions: number; // from left to right, which gold links count
  shape: readonly [height: number, width: number, colors?: number];
  seconds: number | null; // how long its sound is
  style: string; // of what shows it, set as a property: a server allows no style attributes
}

export interface Seen extends SeenData {
  id: number; // of its picture in the page
  audio: HTMLAudioElement | null; // null: none, or one that is too long for the page
}

/** A step, with what it read. */
interface Row {
  token: string;
  weights: readonly number[] | null;
}

/** The shortest range [first, end) of the states with at least half of the weight; the first of equals. */
export function span(weights: readonly number[]): [first: number, end: number] {
  const half = sum(weights) / 2;
  let best: [number, number] = [0, weights.length];
  for (let first = 0, end = 0, within = 0; end < weights.length; ) {
    within += weights[end++]!;
    // What is left of floating-point sums must not make a range longer.
    while (within - weights[first]! >= half - 1e-9 && first < end - 1) within -= weights[first++]!;
    if (within >= half - 1e-9 && end - first < best[1] - best[0]) best = [first, end];
  }
  return best;
}

/** Positions as ranges [first, end) of neighbors. */
export function ranges(positions: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  for (const position of [...positions].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && position <= last[1]) last[1] = position + 1;
    else found.push([position, position + 1]);
  }
  return found;
}

let playing = 0; // changes with each sound that is asked for

/** Plays the part between two times, in seconds. */
function play(audio: HTMLAudioElement, start: number, end: number): void {
  const own = (playing += 1);
  const watch = (): void => {
    if (own !== playing || audio.paused) return;
    if (audio.currentTime < end) requestAnimationFrame(watch);
    else audio.pause();
  };
  audio.currentTime = start;
  audio.play().then(watch, () => undefined); // rejected if it is paused before it starts
}

export class SourcePicture extends Part {
  static override properties = {
    model: {},
    seen: { attribute: false },
    grid: { attribute: false },
    rows: { attribute: false },
    gold: { attribute: false },
    focusStep: { attribute: false },
  };
  declare model: string;
  declare seen: Seen;
  declare grid: number; // rows of the states; 1: a sequence
  declare rows: readonly Row[];
  declare gold: readonly (readonly number[])[]; // for each row, the positions that it is linked to
  declare focusStep: number;

  protected override render(): TemplateResult {
    const { seen, grid, rows, focusStep } = this;
    const weights = rows[focusStep]!.weights;
    const most = Math.max(...rows.flatMap((row) => row.weights ?? [])) || 1;
    const choices = rows.map((row, step) => this.choice(row, step, most));
    const { style } = seen;
    const note = html`<p class="hint">${this.note(weights)}</p>`;
    if (grid > 1) {
      return html`<div class="large" .style=${style}>${this.picture(weights, true)}</div>${note}
        <div class="tiles" .style=${style} role="group" aria-label="Steps" @keydown=${this.move}>${choices}</div>`;
    }
    return html`<div class="strips scroll" .style=${style} role="group" aria-label="Steps" @keydown=${this.move}>
      <span></span><div class="large">${this.picture(weights, true)}${this.axis()}</div>${choices}</div>${note}`;
  }

  /** The picture in the fog that the weights of a step lift, with what is played and the gold positions outlined. */
  private picture(weights: readonly number[] | null, isLarge: boolean): TemplateResult {
    const { seen, grid } = this;
    const [height, width] = seen.shape;
    const columns = (weights?.length ?? grid) / grid;
    const most = Math.max(...(weights ?? [0])) || 1;
    const fog = cells((weights ?? []).map((weight) => FOG * (1 - weight / most)), grid, "fog");
    const outline = (name: string, [first, end]: readonly [number, number], of: number): TemplateResult => svg`
      <rect class=${name} x=${(first / of) * width} width=${((end - first) / of) * width} height=${height} />`;
    return html`<svg class="seen" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img"
        aria-label="The source, clear where the step read it"><use href="#seen-${seen.id}" />
      <g transform="scale(${width / columns} ${height / grid})">${fog}</g>
      ${isLarge ? ranges(this.gold[this.focusStep] ?? []).map((range) => outline("gold", range, seen.positions)) : nothing}
      ${isLarge && weights && seen.audio ? outline("span", span(weights), weights.length) : nothing}</svg>`;
  }

  private axis(): TemplateResult {
    const { seconds, positions } = this.seen;
    const [first, last] = seconds === null ? ["1", String(positions)] : ["0", `${fixed(seconds, 2)} s`];
    return html`<p class="axis"><span>${first}</span><span>${last}</span></p>`;
  }

  private choice({ token, weights }: Row, step: number, most: number): TemplateResult {
    const shown = this.grid > 1 ? this.picture(weights, false) : html`
      <svg class="strip" viewBox="0 0 ${weights?.length ?? 1} 1" preserveAspectRatio="none" aria-hidden="true">${
        cells((weights ?? []).map((weight) => weight / most), 1)}</svg>`;
    return html`<button type="button" aria-pressed=${step === this.focusStep} @click=${() => this.choose(step, weights)}>
      <bdi>${token}</bdi>${shown}</button>`;
  }

  private note(weights: readonly number[] | null): TemplateResult | string {
    const { seen } = this;
    if (seen.seconds === null || !weights) return "";
    if (!seen.audio) return `The sound of ${fixed(seen.seconds, 0)} seconds is too long for this page.`;
    const [start, end] = this.times(weights);
    return html`A choice plays what the step read: the shortest part with half of its weight, ${fixed(start, 2)} to ${fixed(end, 2)} s.`;
  }

  private times(weights: readonly number[]): [number, number] {
    const [first, end] = span(weights);
    const each = this.seen.seconds! / weights.length;
    return [first * each, end * each];
  }

  private choose(step: number, weights: readonly number[] | null): void {
    this.ask("focus-step", { model: this.model, step });
    if (weights && this.seen.audio && this.grid === 1) play(this.seen.audio, ...this.times(weights));
  }

  /** Arrow keys choose a step without playing it. */
  private move(event: KeyboardEvent): void {
    const direction = ARROWS[event.key];
    if (!direction) return;
    event.preventDefault();
    const step = this.focusStep + direction.across + direction.down;
    if (!this.rows[step]) return;
    this.ask("focus-step", { model: this.model, step });
    this.querySelectorAll<HTMLElement>("button")[step]?.focus();
  }
}

customElements.define("source-picture", SourcePicture);
