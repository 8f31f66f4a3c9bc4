/** One vector, drawn: what a model without attention reads, the same at every step, and how much of each word is in it. */

import { scaleSqrt } from "d3-scale";
import { linkVertical } from "d3-shape";
import { html, nothing, type PropertyValues, svg, type TemplateResult } from "lit";
import type { SentenceVector } from "./api.ts";
import { figureButtons } from "./download.ts";
import { END, percent } from "./format.ts";
import { centers, widthOfSides } from "./layout.ts";
import { Part, reveal } from "./part.ts";
import { tokensOf } from "./reading.ts";
import { answerTo, inWords } from "./retry.ts";
import { Room } from "./room.ts";
import "./scroll-box.ts";
import { Line, type Pane } from "./session.ts";
import { cells } from "./shades.ts";
import { tokenWidths } from "./text-width.ts";
import { factsOf } from "./vector-facts.ts";

const WIDTH = 420; // until the room is known
const [TOP, BOX, STRIP, BOTTOM] = [30, 130, 26, 240]; // where bands begin, C, its height, where lines end
const width = scaleSqrt([0, 1], [0, 14]).clamp(true);

export class OneVector extends Part {
  static override properties = {
    pane: { attribute: false },
    step: { attribute: false },
    version: { attribute: false },
    found: { state: true },
    note: { state: true },
  };
  declare pane: Pane;
  declare step: number | null;
  declare version: number;
  declare found: SentenceVector | null;
  declare note: string;
  private readonly line = new Line();
  private readonly room = new Room(this, WIDTH);

  constructor() {
    super();
    this.found = null;
    this.note = "";
  }

  protected override render(): TemplateResult {
    const { found } = this;
    const isStale = found !== null && found.source.join(" ") !== this.pane.current?.source.join(" ");
    return html`<figure class=${isStale ? "stale" : ""}><figcaption>One vector C ${found === null ? nothing : html`<small>${found.vector.length} numbers, ${
        found.every_step ? "the same at every step" : "from which the first state is computed"}</small>
        ${figureButtons(`vector of ${this.pane.info.name}`, () => this.querySelector("svg"))}`}</figcaption>
      ${found === null ? html`<p class="note" role="status">${this.note || "reading …"}</p>` : html`${this.drawing(found)} ${this.facts(found)}`}
    </figure>`;
  }

  private drawing(found: SentenceVector): TemplateResult {
    const { glosses, info, current } = this.pane;
    const target = current ? tokensOf(current) : [];
    const [above, below] = [tokenWidths(found.source, glosses), tokenWidths(target, glosses)];
    const size = widthOfSides([above, below], this.room.width);
    const [from, to] = [centers(above, size), centers(below, size)];
    const [start, cell] = [size * 0.1, (size * 0.8) / found.vector.length];
    const into = (x: number): number => start + x * 0.8;
    const most = Math.max(...found.vector.map(Math.abs), 1e-9);
    const draw = linkVertical();
    return html`<scroll-box class="scroll" tabindex="0" role="region" aria-label="One vector between the sentences">
      <svg class="vector" width=${size} height=${BOTTOM + 48} viewBox="0 0 ${size} ${BOTTOM + 48}" role="img"
        aria-label="Every word goes into one vector, and every step reads this vector alone">
        ${found.changes.map((change, j) => svg`<path class="link" stroke-width=${width(change)} stroke-opacity="0.5"
          d=${draw({ source: [from[j]!, TOP - 4], target: [into(from[j]!), BOX] })}><title>${percent(change)}</title></path>`)}
        ${target.map((_, i) => (found.every_step || i === 0 ? svg`<path class="read ${i === this.step ? "now" : ""}"
          d=${draw({ source: [into(to[i]!), BOX + STRIP], target: [to[i]!, BOTTOM] })} />` : nothing))}
        <rect class="ground" x=${start} y=${BOX} width=${size * 0.8} height=${STRIP} />
        <g transform="translate(${start},${BOX}) scale(${cell},${STRIP})">${
          cells(found.vector.map((value) => Math.abs(value) / most), 1)}</g>
        <text class="name" x=${start - 8} y=${BOX + STRIP / 2} dy="0.35em" text-anchor="end">C</text>
        <g lang=${info.source}>${found.source.map((token, j) => svg`<text x=${from[j]} y=${TOP - 10} text-anchor="middle"
          class=${token === END ? "end" : ""}>${token}</text>`)}</g>
        <g lang=${info.target}>${target.map((token, i) => svg`<text x=${to[i]} y=${BOTTOM + 18} text-anchor="middle"
            class="target ${token === END ? "end" : ""} ${i === this.step ? "now" : ""}"
            @click=${() => this.ask("focus-step", { model: info.name, step: i })}>${token}</text>
          ${glosses.has(token) ? svg`<text class="gloss" lang="en" x=${to[i]} y=${BOTTOM + 36} text-anchor="middle">${glosses.get(token)}</text>` : nothing}`)}</g>
      </svg>
    </scroll-box>`;
  }

  private facts({ source, changes, every_step }: SentenceVector): TemplateResult | typeof nothing {
    const facts = factsOf(source, changes);
    if (facts === null) return nothing;
    const word = (token: string): TemplateResult => html`<b lang=${this.pane.info.source}>${token}</b>`;
    return html`<p class="note">${every_step ? "Every step reads this vector, and nothing else of the sentence." : "The first state is computed from this vector; nothing else of the sentence is read."}
      Another word in the place of one moves C by ${percent(facts.mean)} of its length on average: least for
      ${word(facts.least.token)} (${percent(facts.least.change)}), most for ${word(facts.most.token)} (${percent(facts.most.change)}).
      A band is as wide as that; where it is thin, sentences that differ in the word are nearly one vector.</p>`;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.line.stop();
  }

  protected override updated(changed: PropertyValues): void {
    const { pane } = this;
    if (changed.has("step")) {
      const [scroller, now] = [this.querySelector("scroll-box"), this.querySelector("text.now")];
      if (scroller && now) reveal(scroller, Number(now.getAttribute("x")));
    }
    if (pane.busy > 0 || !pane.current) return; // not with each token that is decoded
    this.line.ask(JSON.stringify([pane.info.name, pane.source]), true, (signal) => this.inquire(signal));
  }

  private async inquire(signal: AbortSignal): Promise<void> {
    const found = await answerTo(() => this.pane.vector(signal), signal, ({ error, pause }) => {
      [this.found, this.note] = [null, inWords(error, pause)];
    });
    if (found) [this.found, this.note] = [found, ""];
  }
}

customElements.define("one-vector", OneVector);
