/** The lesson: a query, four keys, a scorer; scores, weights and C as the numbers move. */

import { html, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import { figureButtons, saveJson } from "./download.ts";
import { few, share } from "./format.ts";
import { meter } from "./meter.ts";
import { Part } from "./part.ts";
import "./walk.css";
import { context, isMean, NORMALIZERS, type Parameter, SCORERS, total, type Vector } from "./walk-math.ts";
import { REACH, type WalkPlane } from "./walk-plane.ts";
import { initialParameters, walkDefaults, type WalkState, WORDS } from "./walk-state.ts";

export class WalkPage extends Part {
  static override properties = { state: { attribute: false } };
  declare state: WalkState;

  protected override render(): TemplateResult {
    const { state } = this;
    const { query, keys } = state;
    const scores = SCORERS[state.scorer]!.score(query, keys, state.parameters);
    const weights = NORMALIZERS[state.normalizer]!.weights(scores, state.temperature);
    const found = context(weights, keys);
    const results = { scores, weights, context: found };
    return html`<p class="lead">A decoder asks with a query q. Each source word answers with a key k. A scorer compares them, a normalizer turns the scores
        into weights, and the context C is the sum of the states under these weights.</p>
      <div class="walk">
        <figure @move-vector=${this.moved}>
          <figcaption>Drag q and the words ${figureButtons("walk", () => this.querySelector("svg.plane"))}</figcaption>
          <walk-plane .words=${WORDS} .query=${query} .keys=${keys} .weights=${weights} .context=${found}></walk-plane>
          ${this.adding()}
          <div class="vectors">${this.vector("q", query, -1)}${keys.map((key, j) => this.vector(WORDS[j]!, key, j))}</div>
        </figure>
        <div>
          ${this.scorer(scores)} ${this.normalizer(weights)} ${this.sum(weights, found)}
          <div class="line"><button type="button" @click=${() => this.change(walkDefaults())}>Reset</button>
            <button type="button" @click=${() => saveJson("walk", { ...state, ...results })}>Save as JSON</button></div>
        </div>
      </div>
      <p class="note">Keys are the values here, as in an encoder without projections. Coverage, location-aware and relative scorers need earlier
        weights or distances, so they have no place in a single step. The command <code>seq2seq-attn walk</code> writes the same steps as text.</p>`;
  }

  private change(patch: Partial<WalkState>): void {
    this.ask("change-state", { walk: { ...this.state, ...patch } });
  }

  private moved(event: CustomEvent<{ place: number; vector: Vector }>): void {
    this.set(event.detail.place, event.detail.vector);
  }

  private set(place: number, vector: Vector): void {
    this.change(place < 0 ? { query: vector } : { keys: this.state.keys.map((key, j) => (j === place ? vector : key)) });
  }

  private vector(name: string, vector: Vector, place: number): TemplateResult {
    return html`<div class="vector"><span class=${place < 0 ? "query" : ""}>${name}</span>${vector.map((value, i) => html`
      <input type="range" min=${-REACH} max=${REACH} step="0.05" .value=${String(value)} aria-label="${place < 0 ? "query" : `key of ${name}`}, number ${i + 1}"
        @input=${(event: Event) => this.set(place, vector.map((each, k) => (k === i ? Number((event.target as HTMLInputElement).value) : each)))}>
      <output>${value.toFixed(2).replace("-", "−")}</output>`)}</div>`;
  }

  private scorer(scores: Vector): TemplateResult {
    const { state } = this;
    const known = SCORERS[state.scorer]!;
    const choose = (event: Event): void => {
      const scorer = (event.target as HTMLSelectElement).value;
      this.change({ scorer, parameters: initialParameters(scorer) });
    };
    return html`<h2>1. Score</h2>
      <div class="line"><label>Scorer <select id="scorer" @change=${choose}>
        ${Object.keys(SCORERS).map((name) => html`<option .selected=${live(name === state.scorer)}>${name}</option>`)}</select></label>
        <span class="equation">e = ${subscripts(known.equation)} <small>${known.source}</small></span></div>
      ${known.parameters.length > 0 ? html`<div class="parameters">${known.parameters.map((each, p) => this.parameter(each, p))}</div>` : nothing}
      ${this.bars("score e", scores, Math.max(...scores.map(Math.abs), 1e-9), few, "e")}`;
  }

  private parameter(parameter: Parameter, place: number): TemplateResult {
    const values = this.state.parameters[place]!;
    const set = (i: number, event: Event): void => {
      const typed = (event.target as HTMLInputElement).value;
      const value = typed === "" ? values[i]! : Number(typed); // not a number
      // A temperature of 0 would divide by 0.
      const allowed = parameter.name === "τ" ? Math.max(0.05, value) : value;
      const changed = values.map((each, k) => (k === i ? allowed : each));
      this.change({ parameters: this.state.parameters.map((each, p) => (p === place ? changed : each)) });
    };
    return html`<fieldset class="matrix"><legend>${parameter.name}</legend>
      <div class="columns-${parameter.columns}">${values.map((value, i) => html`<input type="number" step="0.1" .value=${String(value)}
        aria-label="${parameter.name}, row ${Math.floor(i / parameter.columns) + 1}, column ${(i % parameter.columns) + 1}"
        @change=${(event: Event) => set(i, event)}>`)}</div></fieldset>`;
  }

  private normalizer(weights: Vector): TemplateResult {
    const { state } = this;
    const known = NORMALIZERS[state.normalizer]!;
    return html`<h2>2. Normalize</h2>
      <div class="line"><label>Normalizer <select id="normalizer"
          @change=${(event: Event) => this.change({ normalizer: (event.target as HTMLSelectElement).value })}>
        ${Object.keys(NORMALIZERS).map((name) => html`<option .selected=${live(name === state.normalizer)}>${name}</option>`)}</select></label>
        ${known.hasTemperature ? html`<label class="slider">Temperature τ <input type="range" id="tau" min="0.1" max="5" step="0.1" .value=${String(state.temperature)}
          @input=${(event: Event) => this.change({ temperature: Number((event.target as HTMLInputElement).value) })}><output>${state.temperature}</output></label>` : nothing}
        <span class="equation">${subscripts(known.equation)}</span></div>
      ${this.bars("weight a", weights, 1, share, "a", total(weights))}
      ${isMean(weights) ? nothing : html`<p class="note">These weights sum to ${total(weights).toFixed(2)}, as each is computed on its own. So C is a sum
        but no weighted mean, and may lie outside the states.</p>`}`;
  }

  private bars(title: string, values: Vector, most: number, format: (value: number) => string, name: string, sum: number | null = null): TemplateResult {
    return html`<table class="numbers" data-name=${name}><thead><tr><th scope="col">word</th><th scope="col">${title}</th><th></th></tr></thead>
      <tbody>${values.map((value, j) => html`<tr><th scope="row">${WORDS[j]}</th><td><data value=${value}>${format(value)}</data></td>
        <td class="bar">${meter(Math.abs(value) / most, value < 0 ? "negative" : "")}</td></tr>`)}</tbody>
      ${sum === null ? nothing : html`<tfoot><tr><th scope="row">sum</th><td><data value=${sum}>${share(sum)}</data></td><td></td></tr></tfoot>`}</table>`;
  }

  private adding(): TemplateResult {
    const plane = (): WalkPlane => this.querySelector("walk-plane")!;
    return html`<div class="line"><button type="button" id="add-arrows" @click=${() => plane().play()}>Add the arrows a · k</button>
      <button type="button" @click=${() => plane().clear()}>Take them away</button></div>`;
  }

  private sum(weights: Vector, found: Vector): TemplateResult {
    const vector = (values: Vector): string => `[${values.map((each) => each.toFixed(3).replace("-", "−")).join("  ")}]`;
    return html`<h2>3. Sum</h2>
      <p class="sum">C = Σ<sub>j</sub> a<sub>j</sub> k<sub>j</sub> = ${this.state.keys.map((key, j) => html`${j > 0 ? " + " : ""}<span>${share(weights[j]!)} · ${vector(key)}</span>`)}
        = <strong>[${found.map((value, i) => html`${i > 0 ? "  " : ""}<data class="c" value=${value}>${value.toFixed(3).replace("-", "−")}</data>`)}]</strong></p>`;
  }
}

/** An equation whose letters after _ stand below the line. */
const subscripts = (equation: string): (string | TemplateResult)[] =>
  equation.split(/_(.)/).map((part, i) => (i % 2 === 1 ? html`<sub>${part}</sub>` : part));

customElements.define("walk-page", WalkPage);
