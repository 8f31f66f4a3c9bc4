/** Options of the translator: the search or the sampling, from scores to weights, and which layer and head is shown. */

import { html, nothing, type TemplateResult } from "lit";
import type { ModelInfo } from "./api.ts";
import { sum, upTo } from "./numbers.ts";
import { option } from "./option.ts";
import { Part } from "./part.ts";
import type { State } from "./state.ts";
import { temperatureSlider } from "./temperature.ts";

/** How weights follow from scores: what is chosen, and by what the normalizer can be replaced. */
export interface Normalization {
  temperature: number;
  normalizer: string; // empty: the model's own
  normalizers: readonly string[];
}

type Slider = "beam" | "penalty" | "temperature" | "topP" | "seed";

export class TranslatorControls extends Part {
  static override properties = {
    state: { attribute: false },
    search: { attribute: false },
    heads: { attribute: false },
    normalization: { attribute: false },
  };
  declare state: State;
  declare search: ModelInfo["search"]; // of the first model, with which the page begins
  declare heads: readonly number[]; // of each layer that attends
  declare normalization: Normalization | null; // null: no model has weights that can be recomputed from scores

  protected override render(): TemplateResult {
    const { state, search } = this;
    const beam = state.beam ?? search.beam_size;
    const samples = state.temperature !== null;
    return html`<div class="controls" role="group" aria-label="Options of the translator">
      <label>Decoding <select id="decoding" @change=${this.method}>
        ${option("search", "search", !samples)} ${option("sampling", "sampling", samples)}</select></label>
      ${samples
        ? [
            this.slider("temperature", "Temperature", 0.1, 2, 0.1, state.temperature!),
            this.slider("topP", "Top p", 0.05, 1, 0.05, state.topP),
            this.slider("seed", "Seed", 1, 50, 1, state.seed),
          ]
        : [
            this.slider("beam", "Beam", 1, Math.max(16, beam), 1, beam),
            beam > 1 ? this.slider("penalty", "Length penalty", 0, 3, 0.1, state.penalty ?? search.length_penalty) : nothing,
          ]}
      ${this.normalization === null
        ? nothing
        : [this.normalizer(this.normalization), this.sharpness(this.normalization)]}
      ${sum(this.heads) > 1 ? this.layers() : nothing}
    </div>`;
  }

  private slider(name: Slider, label: string, low: number, high: number, step: number, value: number): TemplateResult {
    return html`<label class="slider">${label}
      <input type="range" id=${name} min=${low} max=${high} step=${step} .value=${String(value)}
        @input=${(event: Event) => this.ask("change-state", { [name]: Number((event.target as HTMLInputElement).value) })}>
      <output for=${name}>${value}</output></label>`;
  }

  private normalizer({ normalizer, normalizers }: Normalization): TemplateResult {
    const choose = (event: Event): void => this.ask("set-normalizer", (event.target as HTMLSelectElement).value);
    return html`<label title="The weights are normalize(e), where e are the model's own scores">Normalizer
      <select id="attention-normalizer" @change=${choose}>
        ${option("", "the model's own", normalizer === "")}
        ${normalizers.map((name) => option(name, name, name === normalizer))}</select></label>`;
  }

  private sharpness({ temperature }: Normalization): TemplateResult {
    return temperatureSlider("attention-temperature", "Attention temperature", temperature,
      (chosen) => this.ask("set-temperature", chosen), "The weights are normalize(e / t): below 1 sharper, above 1 closer to equal");
  }

  private method(event: Event): void {
    const samples = (event.target as HTMLSelectElement).value === "sampling";
    this.ask("change-state", { temperature: samples ? 1 : null });
  }

  private layers(): TemplateResult {
    const { layer, head } = this.state;
    const choose = (event: Event): void => {
      const [a, b] = (event.target as HTMLSelectElement).value.split(".").map(Number);
      this.ask("change-state", Number.isInteger(a) ? { layer: a!, head: b! } : { layer: null, head: 0 });
    };
    return html`<label>Weights of <select id="head" @change=${choose}>
      ${option("", "all heads (mean)", layer === null)}
      ${this.heads.map((count, a) => upTo(count).map((b) => option(`${a}.${b}`, `layer ${a + 1}, head ${b + 1}`, layer === a && head === b)))}
    </select></label>`;
  }
}

customElements.define("translator-controls", TranslatorControls);
