/** One model's figures: bands, heat map, the hypotheses of its search, and the chosen step. */

import { html, nothing, type TemplateResult } from "lit";
import type { SeenRecord } from "./api.ts";
import { figureButtons } from "./download.ts";
import { failureLine } from "./failure-line.ts";
import "./head-grid.ts";
import "./nearest-pairs.ts";
import "./one-vector.ts";
import { LONG } from "./layout.ts";
import { Part } from "./part.ts";
import { comparable, editedSteps, rows, sourceTokens, tokensOf, type View } from "./reading.ts";
import { readsText, seenOf } from "./sent-files.ts";
import type { Pane } from "./session.ts";
import "./source-picture.ts";
import { NO_EDIT } from "./state.ts";
import "./source-tokens.ts";

export class ModelPane extends Part {
  static override properties = {
    pane: { attribute: false },
    name: {},
    step: { attribute: false },
    view: { attribute: false },
    sampled: { type: Boolean },
    version: { attribute: false },
  };
  declare pane: Pane;
  declare name: string;
  declare step: number | null;
  declare view: View;
  declare sampled: boolean;
  declare version: number; // changes with the content of the pane

  protected override render(): TemplateResult | typeof nothing {
    const { pane } = this;
    const decoded = pane.current;
    const isText = readsText(pane.info);
    const isStale = pane.isStale(pane.changed ? "changed" : "base");
    return html`<section class="pane" aria-label=${this.name} aria-busy=${pane.busy > 0}>
      <h2><span class="swatch"></span> ${this.name}</h2>
      ${pane.failure ? failureLine(pane.failure, () => this.ask("again", null)) : nothing}
      <div class=${isStale ? "stale" : ""} ?inert=${pane.isOutdated()}>
        ${decoded && decoded.steps.length > 0 ? this.figures() : nothing}
        ${isText ? html`<source-tokens .model=${pane.info.name} .language=${pane.info.source} .isEdited=${pane.edit.source !== undefined}
          .tokens=${pane.edit.source ?? (decoded && sourceTokens(decoded))}></source-tokens>` : nothing}
      </div>
      ${isText ? html`<nearest-pairs .pane=${pane} .step=${null} .version=${this.version}></nearest-pairs>` : nothing}
    </section>`;
  }

  private figures(): TemplateResult {
    const { pane, view, version } = this;
    const decoded = pane.current!;
    const { info, edit } = pane;
    const base = comparable(pane.base, decoded);
    const weights = rows(decoded, edit, view);
    const edited = editedSteps(edit, decoded.steps.length);
    const target = tokensOf(decoded);
    const languages = { source: info.source, target: info.target };
    const tree = html`<hypothesis-tree .model=${info.name} .language=${info.target} .hypotheses=${pane.hypotheses}
      .sampled=${this.sampled}></hypothesis-tree>`;
    const detail = this.step === null ? nothing : html`<step-panel .pane=${pane} .step=${this.step} .view=${view}
      .edited=${edited.has(this.step)} .version=${version}></step-panel>`;
    if (decoded.seen) return html`${this.picture(decoded.seen, target, weights)}${tree}${detail}`;
    if (weights.every((row) => row === null)) {
      const text = pane.attends
        ? "Every step reads the context of another sentence, so there are no weights over this one."
        : "No attention weights: this model reads one context C at every step, or its initial state alone.";
      const shown = pane.attends || !pane.hasServer || !readsText(info) ? html`<p class="note">${text}</p>` : html`
        <one-vector .pane=${pane} .step=${this.step} .version=${version}></one-vector>`;
      return html`<div class="figures">${shown}${detail}</div>${tree}`;
    }
    const isLong = Math.max(decoded.source.length, target.length) > LONG;
    const gold = this.gold();
    return html`<div class="figures ${isLong ? "long" : ""}">
        <figure><figcaption>Attention <small>drag a word to another</small>
            ${figureButtons(`bands of ${info.name}`, () => this.querySelector("svg.bands"))}</figcaption>
          <attention-bands .model=${info.name} .source=${decoded.source} .target=${target} .weights=${weights} .glosses=${pane.glosses}
            .edited=${edited} .languages=${languages} .focusStep=${this.step}></attention-bands></figure>
        <figure><figcaption>Weights a <small>drag a cell up or down</small>
            ${figureButtons(`weights of ${info.name}`, () => this.querySelector("svg.heat-map"))}</figcaption>
          <heat-map .model=${info.name} .source=${decoded.source} .target=${target} .weights=${weights} .glosses=${pane.glosses}
            .baseline=${base ? rows(base, NO_EDIT, view) : []} .edited=${edited}
            .links=${gold} .languages=${languages} .focusStep=${this.step}></heat-map>
          ${gold.length > 0 ? html`<p class="note"><span class="key gold">Outlined</span>: gold alignment</p>` : nothing}
        </figure>
        ${detail}
      </div>
      <head-grid .isGrowing=${pane.busy > 0} .decoded=${decoded} .heads=${info.heads} .view=${view}></head-grid>
      ${tree}`;
  }

  /** A source that is not text, in the fog that the weights of each step lift, or above the strips of its steps. */
  private picture(seen: SeenRecord, target: readonly string[], weights: readonly (number[] | null)[]): TemplateResult {
    const shown = seenOf(seen);
    const [height, width] = seen.shape;
    const steps = target.map((token, step) => ({ token, weights: weights[step] ?? null }));
    const title = this.pane.attends ? "What each step read" : "The source, which every step reads as one vector C";
    return html`<svg class="defined" aria-hidden="true"><image id="seen-${shown.id}" width=${width} height=${height}
        preserveAspectRatio="none" href=${seen.picture} /></svg>
      <figure><figcaption>${title} <small>${seen.sound ? "choose a step to hear it" : "choose a step"}</small></figcaption>
        <source-picture .model=${this.pane.info.name} .seen=${shown} .grid=${seen.grid} .rows=${steps} .gold=${[]}
          .focusStep=${this.step ?? 0}></source-picture></figure>`;
  }

  /** The gold links, if the translation is the reference of an example whose tokens are words. */
  private gold(): readonly (readonly [number, number])[] {
    const decoded = this.pane.current!;
    const example = this.pane.info.examples.find((each) => each.source === this.pane.source);
    const hasWords = example?.source.split(" ").length === decoded.source.length - 1;
    return hasWords && example.target === decoded.text && decoded.text.split(" ").length === decoded.steps.length - 1
      ? (example.links ?? [])
      : [];
  }
}

customElements.define("model-pane", ModelPane);
