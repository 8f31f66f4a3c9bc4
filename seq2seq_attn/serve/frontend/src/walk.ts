/** The lesson: a query, four keys, a scorer; scores, weights and C as the numbers move. */

import { html, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import { barTable } from "./bar-table.ts";
import { figureButtons, saveJson } from "./download.ts";
import { few, fixed, percent, share } from "./format.ts";
import { sum } from "./numbers.ts";
import { option } from "./option.ts";
import { type Asks, Part } from "./part.ts";
import "./walk.css";
import { context, isMean, NORMALIZERS, type Parameter, partialSums, reachOf, SCORERS, type Vector } from "./walk-math.ts";
import { REACH, type WalkPlane } from "./walk-plane.ts";
import { type Given, hasPlane, initialParameters, walkDefaults, type WalkState, wordsOf } from "./walk-state.ts";

const TERMS = 5; // of C that are written out

export class WalkPage extends Part {
  static override properties = { state: { attribute: false } };
  declare state: WalkState;

  protected override render(): TemplateResult {
    const { state } = this;
    const { query, keys, given } = state;
    const scores = given ? (state.moved ?? given.scores) : SCORERS[state.scorer]!.score(query, keys, state.parameters);
    const weights = NORMALIZERS[state.normalizer]!.weights(scores, state.temperature);
    const found = hasPlane(state) ? context(weights, keys) : null;
    const results = { scores, weights, context: found };
    return html`<p class="lead">${given ? this.aboutStep(given) : html`A decoder asks with a query q. Each source word answers with a key k. A scorer compares
        them, a normalizer turns the scores into weights, and the context C is the sum of the states under these weights.`}</p>
      <div class="walk">
        <figure @move-vector=${this.moved}>
          ${found ? this.plane(weights, found) : html`<p class="note">${this.whyNoPlane()}</p>`}
          ${given
            ? html`<div class="vectors">${scores.map((score, j) => this.scoreSlider(given, score, j))}</div>`
            : html`<div class="vectors">${this.vector("q", query, -1)}${keys.map((key, j) => this.vector(wordsOf(state)[j]!, key, j))}</div>`}
        </figure>
        <div>
          ${this.scorer(scores)} ${this.normalizer(weights)} ${this.sum(weights, found)}
          <div class="line">
            ${state.moved ? html`<button type="button" @click=${() => this.change({ moved: null })}>The model's scores</button>` : nothing}
            <button type="button" @click=${() => this.change(walkDefaults())}>${given ? "Back to the example" : "Reset"}</button>
            <button type="button" @click=${() => saveJson("walk", { ...state, ...results })}>Save as JSON</button></div>
        </div>
      </div>
      <p class="note">${given ? html`The values v are what the model sums: in an encoder without projections, its states h.` : html`Keys are the values here,
        as in an encoder without projections. Coverage, location-aware and relative scorers need earlier
        weights or distances, so they have no place in a single step. The command <code>seq2seq-attn walk</code> writes the same steps as text.`}</p>`;
  }

  private aboutStep({ model, token, link }: Given): TemplateResult {
    return html`These are the numbers of <a href="#${link}">a step of ${model}</a>, in which it wrote <bdi class="given">${token}</bdi>. Move a score, change the
      normalizer or its temperature, and see what C becomes.`;
  }

  private plane(weights: Vector, found: Vector): TemplateResult {
    const { query, keys, given } = this.state;
    const caption = given ? "The values v, and C" : "Drag q and the words";
    return html`<figcaption>${caption} ${figureButtons("walk", () => this.querySelector("svg.plane"))}</figcaption>
      <walk-plane .words=${wordsOf(this.state)} .query=${given ? null : query} .keys=${keys} .weights=${weights} .context=${found}
        .isFixed=${given !== null} .reach=${given ? reachOf([...keys, ...partialSums(weights, keys)]) : REACH}></walk-plane>
      ${given ? html`<p class="note">A plane of their two largest principal components, which shows ${percent(given.share!)} of the variance. Sums are
        exact in it; words that are near each other here may differ in the other directions.</p>` : nothing}
      ${this.adding(given ? "v" : "k")}`;
  }

  private whyNoPlane(): string {
    const { share } = this.state.given!;
    return share === null
      ? "The values of this step are not known here, so there are its scores and weights alone."
      : `A plane would show only ${percent(share)} of the variance of the values and mislead, so there are scores and weights alone.`;
  }

  private scoreSlider({ words, scores }: Given, score: number, place: number): TemplateResult {
    const [low, high] = [Math.min(...scores) - 3, Math.max(...scores) + 3];
    const set = (event: Event): void => {
      const now = this.state.moved ?? scores;
      this.change({ moved: now.map((each, j) => (j === place ? Number((event.target as HTMLInputElement).value) : each)) });
    };
    return html`<div class="vector score"><span>${words[place]}</span>
      <input type="range" min=${low} max=${high} step="0.01" .value=${String(score)} aria-label="score of ${words[place]}" @input=${set}>
      <output>${fixed(score, 2)}</output></div>`;
  }

  private change(patch: Partial<WalkState>): void {
    this.ask("change-state", { walk: { ...this.state, ...patch } });
  }

  private moved(event: CustomEvent<Asks["move-vector"]>): void {
    this.set(event.detail.place, event.detail.vector);
  }

  private set(place: number, vector: Vector): void {
    this.change(place < 0 ? { query: vector } : { keys: this.state.keys.map((key, j) => (j === place ? vector : key)) });
  }

  private vector(name: string, vector: Vector, place: number): TemplateResult {
    return html`<div class="vector"><span class=${place < 0 ? "query" : ""}>${name}</span>${vector.map((value, i) => html`
      <input type="range" min=${-REACH} max=${REACH} step="0.05" .value=${String(value)} aria-label="${place < 0 ? "query" : `key of ${name}`}, number ${i + 1}"
        @input=${(event: Event) => this.set(place, vector.map((each, k) => (k === i ? Number((event.target as HTMLInputElement).value) : each)))}>
      <output>${fixed(value, 2)}</output>`)}</div>`;
  }

  private scorer(scores: Vector): TemplateResult {
    const { state } = this;
    if (state.given) return html`<h2>1. Score</h2><span class="equation">e<sub>j</sub>, as the model computed them</span>${this.scores(scores)}`;
    const known = SCORERS[state.scorer]!;
    const choose = (event: Event): void => {
      const scorer = (event.target as HTMLSelectElement).value;
      this.change({ scorer, parameters: initialParameters(scorer) });
    };
    return html`<h2>1. Score</h2>
      <div class="line"><label>Scorer <select id="scorer" @change=${choose}>
        ${Object.keys(SCORERS).map((name) => option(name, name, name === state.scorer))}</select></label>
        <span class="equation">e = ${subscripts(known.equation)} <small>${known.source}</small></span></div>
      ${known.parameters.length > 0 ? html`<div class="parameters">${known.parameters.map((each, p) => this.parameter(each, p))}</div>` : nothing}
      ${this.scores(scores)}`;
  }

  private scores(scores: Vector): TemplateResult {
    return barTable({ word: "word", value: "score e" }, wordsOf(this.state), scores, few);
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
      <div class="columns-${parameter.columns}">${values.map((value, i) => html`<input type="number" step="0.1" .value=${live(String(value))}
        aria-label="${parameter.name}, row ${Math.floor(i / parameter.columns) + 1}, column ${(i % parameter.columns) + 1}"
        @change=${(event: Event) => set(i, event)}>`)}</div></fieldset>`;
  }

  private normalizer(weights: Vector): TemplateResult {
    const { state } = this;
    const known = NORMALIZERS[state.normalizer]!;
    return html`<h2>2. Normalize</h2>
      <div class="line"><label>Normalizer <select id="normalizer"
          @change=${(event: Event) => this.change({ normalizer: (event.target as HTMLSelectElement).value })}>
        ${Object.keys(NORMALIZERS).map((name) => option(name, name, name === state.normalizer))}</select></label>
        ${known.hasTemperature ? html`<label class="slider">Temperature τ <input type="range" id="tau" min="0.1" max="5" step="0.1" .value=${String(state.temperature)}
          @input=${(event: Event) => this.change({ temperature: Number((event.target as HTMLInputElement).value) })}><output>${state.temperature}</output></label>` : nothing}
        <span class="equation">${subscripts(known.equation)}</span></div>
      ${barTable({ word: "word", value: "weight a", sum: "sum" }, wordsOf(state), weights, share)}
      ${isMean(weights) ? nothing : html`<p class="note">These weights sum to ${sum(weights).toFixed(2)}, as each is computed on its own. So C is a sum
        but no weighted mean, and may lie outside the states.</p>`}`;
  }

  private adding(value: string): TemplateResult {
    const plane = (): WalkPlane => this.querySelector("walk-plane")!;
    return html`<div class="line"><button type="button" id="add-arrows" @click=${() => plane().play()}>Add the arrows a · ${value}</button>
      <button type="button" @click=${() => plane().clear()}>Take them away</button></div>`;
  }

  /** C with its largest terms, in numbers where there are vectors of two. */
  private sum(weights: Vector, found: Vector | null): TemplateResult {
    const { keys, given } = this.state;
    const vector = (values: Vector): string => `[${values.map((each) => fixed(each, 3)).join("  ")}]`;
    const largest = weights.map((_, j) => j).sort((a, b) => weights[b]! - weights[a]!).slice(0, TERMS).sort((a, b) => a - b);
    const value = given ? "v" : "k";
    return html`<h2>3. Sum</h2>
      <p class="sum">C = Σ<sub>j</sub> a<sub>j</sub> ${value}<sub>j</sub> = ${largest.map((j, i) => html`${i > 0 ? " + " : ""}<span>${share(weights[j]!)} · ${
        found ? vector(keys[j]!) : html`${value}(${wordsOf(this.state)[j]})`}</span>`)}${weights.length > TERMS ? " + …" : ""}
        ${found ? html`= <strong>[${found.map((each, i) => html`${i > 0 ? "  " : ""}<data class="c" value=${each}>${fixed(each, 3)}</data>`)}]</strong>` : nothing}</p>`;
  }
}

/** An equation whose letters after _ stand below the line. */
const subscripts = (equation: string): (string | TemplateResult)[] =>
  equation.split(/_(.)/).map((part, i) => (i % 2 === 1 ? html`<sub>${part}</sub>` : part));

customElements.define("walk-page", WalkPage);
