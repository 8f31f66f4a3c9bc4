/** What is translated and by what: the sentence, examples, the models, the beginning of the translation. */

import { html, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import type { ModelInfo } from "./api.ts";
import { Part } from "./part.ts";
import { readsText } from "./sent-files.ts";
import "./source-file.ts";
import { NO_EDIT, type State } from "./state.ts";

const PAUSE = 400; // milliseconds without a key before what was typed is translated

export class SentenceForm extends Part {
  static override properties = {
    state: { attribute: false },
    models: { attribute: false },
    names: { attribute: false },
  };
  declare state: State;
  declare models: readonly ModelInfo[];
  declare names: ReadonlyMap<string, string>;
  private timer = 0;
  private shownSource = "";

  protected override render(): TemplateResult {
    const info = this.models.find((each) => each.name === this.state.models[0]) ?? this.models[0];
    const examples = info?.examples ?? [];
    const example = examples.findIndex((each) => each.source === this.state.source);
    if (info && !readsText(info)) return html`<source-file .info=${info} .source=${this.state.source}></source-file>${this.choices()}`;
    return html`<form class="sentence" @submit=${this.submit}>
      <label class="wide">Sentence${info ? html` <small>(${info.source} to ${info.target})</small>` : nothing}
        <textarea id="source" rows="2" spellcheck="false" dir="auto" lang=${info?.source ?? ""}
          @input=${this.type} @compositionend=${this.type} @keydown=${this.enter}></textarea></label>
      <div class="line">
        <button type="submit" class="main">Translate</button>
        ${examples.length === 0 ? nothing : html`<label>Example
          <select id="example" @change=${this.choose}>
            <option value="-1" ?selected=${example < 0}>choose a sentence of the test set</option>
            ${examples.map((each, i) => html`<option value=${i} ?selected=${i === example}>${shortened(each.source)}</option>`)}
          </select></label>`}
        <label>Begin the translation with
          <input id="prefix" lang=${info?.target ?? ""} autocomplete="off" .value=${this.typedPrefix()} @change=${this.force}></label>
      </div>
      ${this.choices()}
    </form>`;
  }

  private choices(): TemplateResult | typeof nothing {
    if (this.models.length < 2) return nothing;
    return html`<fieldset class="models"><legend>Models</legend>
      ${this.models.map((each) => html`<label><input type="checkbox" name="model" value=${each.name}
        .checked=${live(this.chosen.includes(each.name))} @change=${this.pick}>
        ${this.names.get(each.name)} <small>${count(each.parameters)}</small></label>`)}</fieldset>`;
  }

  /** Replaces what is in the field only by another sentence: what a user types keeps its spaces and its caret. */
  protected override updated(): void {
    if (!this.querySelector("textarea") || this.state.source === this.shownSource) return;
    this.shownSource = this.state.source;
    if (plain(this.textarea.value) !== this.shownSource) this.textarea.value = this.shownSource;
  }

  private get chosen(): string[] {
    return this.state.models.length > 0 ? this.state.models : this.models.slice(0, 1).map((each) => each.name);
  }

  /** The typed prefix, if all models have the same; what was chosen token by token shows in the translation. */
  private typedPrefix(): string {
    const [first] = this.chosen.map((name) => this.state.edits[name]?.prefix);
    return typeof first === "string" ? first : "";
  }

  private get textarea(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  private submit(event: Event): void {
    event.preventDefault();
    this.send(this.textarea.value);
    this.ask("again", null);
  }

  private type(event: Event): void {
    if ((event as InputEvent).isComposing) return;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.send(this.textarea.value), PAUSE);
  }

  private enter(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.submit(event);
  }

  private choose(event: Event): void {
    const number = Number((event.target as HTMLSelectElement).value);
    const info = this.models.find((each) => each.name === this.chosen[0]);
    const example = info?.examples[number];
    if (example) this.send(example.source);
  }

  private send(text: string): void {
    clearTimeout(this.timer);
    const source = plain(text);
    if (source === this.state.source) return;
    this.ask("change-sentence", source);
  }

  private force(event: Event): void {
    const prefix = (event.target as HTMLInputElement).value.trim();
    const edits = Object.fromEntries(
      this.chosen.map((name) => [name, { ...(this.state.edits[name] ?? NO_EDIT), prefix }]),
    );
    this.ask("change-state", { edits: { ...this.state.edits, ...edits } });
  }

  private pick(): void {
    const boxes = [...this.querySelectorAll<HTMLInputElement>("[name=model]")];
    const models = boxes.filter((box) => box.checked).map((box) => box.value);
    this.ask("change-state", { models });
    this.requestUpdate(); // without any, the first is used and stays ticked
  }
}

const plain = (text: string): string => text.replace(/\s+/g, " ").trim();

const count = (parameters: number): string =>
  parameters < 1e6 ? `${Math.round(parameters / 1e3)} k` : `${(parameters / 1e6).toFixed(1)} M`;

const shortened = (text: string): string => (text.length <= 90 ? text : `${text.slice(0, 88)} …`);

customElements.define("sentence-form", SentenceForm);
