/** One step in detail: what was read, the numbers behind it, the next tokens, and what could be read instead. */

import { html, nothing, type TemplateResult } from "lit";
import type { Intervention, ModelInfo, Step } from "./api.ts";
import { END, few, share, spoken } from "./format.ts";
import { meter } from "./meter.ts";
import "./nearest-pairs.ts";
import { sum } from "./numbers.ts";
import { Part } from "./part.ts";
import { comparable, givenRow, reading, type Reading, type View } from "./reading.ts";
import { readsText } from "./sent-files.ts";
import type { Pane } from "./session.ts";
import "./walk-with.ts";

export class StepPanel extends Part {
  static override properties = {
    pane: { attribute: false },
    step: { attribute: false },
    view: { attribute: false },
    edited: { attribute: false },
    version: { attribute: false },
    replacement: { state: true },
  };
  declare pane: Pane;
  declare step: number;
  declare view: View;
  declare edited: boolean; // whether the step is
  declare version: number; // changes with the content of the pane
  declare replacement: Intervention["replace"]; // chosen in the form

  constructor() {
    super();
    this.replacement = "mean";
  }

  protected override render(): TemplateResult | typeof nothing {
    const decoded = this.pane.current;
    const step = decoded?.steps[this.step];
    if (!decoded || !step) return nothing;
    const { info } = this.pane;
    const found = reading(step, this.view);
    const given = givenRow(this.pane.edit, this.step, this.view, decoded.source.length);
    const shown = found && given ? { ...found, weights: given } : found;
    return html`<h3>Step ${this.step + 1}: <bdi lang=${info.target}>${step.token}</bdi>
        <small>${this.glossOf(step.token)}p = ${share(Math.exp(step.log_probability))}</small></h3>
      <div class="step">
        ${this.pane.attends ? this.read(decoded.source, shown) : nothing}
        <div>${this.next(step)}</div>
        ${shown ? html`<div class="scroll tall" tabindex="0" role="region" aria-label="Numbers of this step">${this.table(decoded.source, shown)}</div>` : nothing}
        ${this.pane.attends ? this.whatIf(info) : nothing}
      </div>
      ${readsText(this.pane.info) ? html`<nearest-pairs .pane=${this.pane} .step=${this.step} .version=${this.version}></nearest-pairs>` : nothing}`;
  }

  private glossOf(token: string): TemplateResult | typeof nothing {
    const gloss = this.pane.glosses.get(token);
    return gloss === undefined ? nothing : html`<span lang="en">${gloss}</span>, `;
  }

  private read(source: readonly string[], found: Reading | null): TemplateResult {
    if (!found) return html`<p class="note">This step reads the context of another sentence, so it has no weights here.</p>`;
    const baseline = comparable(this.pane.base, this.pane.current!)?.steps[this.step];
    const before = this.edited && baseline ? reading(baseline, this.view)?.weights : null;
    const { info } = this.pane;
    return html`<div><h4>Weights <small>drag a bar, or draw across</small></h4>
      <row-editor .model=${info.name} .step=${this.step} .tokens=${source} .language=${info.source}
        .weights=${found.weights} .baseline=${before ?? null}></row-editor></div>`;
  }

  private table(source: readonly string[], found: Reading): TemplateResult {
    const most = Math.max(...found.contributions, 1e-9);
    return html`<table class="numbers">
      <thead><tr><th scope="col">source token</th>
        <th scope="col" title="before the normalizer">score e</th><th scope="col">weight a</th>
        <th scope="col" title="how far the token moves the context C">|a v|</th><th></th></tr></thead>
      <tbody>${source.map((token, j) => html`<tr>
        <th scope="row" lang=${this.pane.info.source} class=${token === END ? "end" : ""}>${token}</th>
        <td>${found.scores?.[j] == null ? "–" : few(found.scores[j])}</td>
        <td><data value=${found.weights[j]!}>${share(found.weights[j]!)}</data></td>
        <td>${few(found.contributions[j]!)}</td>
        <td class="bar">${meter(found.contributions[j]! / most)}</td>
      </tr>`)}</tbody></table>
      ${found.scores
        ? html`<walk-with .pane=${this.pane} .step=${this.step} .view=${this.view} .found=${found}></walk-with>`
        : html`<p class="note">${this.whyNoScores()}</p>`}`;
  }

  private whyNoScores(): string {
    const isMean = this.view.layer === null && sum(this.pane.info.heads) > 1;
    return isMean ? "A mean of several heads has no scores; choose one head to see them." : "These weights come from no scores.";
  }

  private next(step: Step): TemplateResult {
    const tokens = this.pane.current!.steps.slice(0, this.step).map((each) => each.token);
    return html`<h4>Next tokens <small>choose one to go on from it</small></h4>
      <ol class="likely ${this.pane.glosses.size > 0 ? "glossed" : ""}">${step.likely.map(({ token, probability }) => html`<li>
        <button type="button" lang=${this.pane.info.target} ?disabled=${token === END || token === "<pad>" || token === "<s>"}
          aria-pressed=${token === step.token} aria-label="${spoken(token)}, probability ${share(probability)}"
          title=${token === END ? "the translation would end here" : "go on from this token"}
          @click=${() => this.ask("go-on", { model: this.pane.info.name, prefix: [...tokens, token] })}>${token}</button>
        ${this.pane.glosses.size > 0 ? html`<small class="gloss" lang="en">${this.pane.glosses.get(token)}</small>` : nothing}
        ${meter(probability)}
        <data value=${probability}>${share(probability)}</data>
      </li>`)}</ol>`;
  }

  private whatIf(info: ModelInfo): TemplateResult {
    return html`<form class="what-if" @submit=${this.replace}>
      <h4>What if it read something else? <small>the context C is replaced</small></h4>
      <div class="line">
        <label>at <select name="where"><option value="here">this step</option><option value="all">every step</option></select></label>
        <label>by <select name="what"
          @change=${(event: Event) => (this.replacement = (event.target as HTMLSelectElement).value as Intervention["replace"])}>
          <option value="mean">the mean of the states</option>
          <option value="nothing">nothing</option>
          ${readsText(info) ? html`<option value="sentence">another sentence's context</option>` : nothing}</select></label>
        <button type="submit">Replace</button>
      </div>
      ${this.replacement === "sentence" ? html`<label class="other">Sentence <input name="other" lang=${info.source} autocomplete="off" required></label>` : nothing}
      <div class="line">
        <button type="button" ?disabled=${!this.edited} @click=${() => this.ask("reset", { model: info.name, step: this.step })}>Reset this step</button>
        <button type="button" @click=${() => this.ask("reset", { model: info.name, step: null })}>Reset all</button>
      </div>
    </form>`;
  }

  private replace(event: SubmitEvent): void {
    event.preventDefault();
    const fields = new FormData(event.target as HTMLFormElement);
    const step = fields.get("where") === "all" ? null : this.step;
    const other = fields.get("other");
    const { replacement: replace, pane } = this;
    this.ask("intervene", { model: pane.info.name, step, replace, ...(replace === "sentence" && { other: String(other) }) });
  }
}

customElements.define("step-panel", StepPanel);
