/** What is translated and by what: the sentence, presets, the models, and, folded, the options. */

import { html, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import type { ModelInfo } from "./api.ts";
import type { Normalization } from "./controls.ts";
import "./controls.ts";
import { shortened } from "./format.ts";
import { option } from "./option.ts";
import { Part } from "./part.ts";
import { isShown, presets } from "./presets.ts";
import { readsText } from "./sent-files.ts";
import { linesOf, lineToRead, plain } from "./sentences.ts";
import "./source-file.ts";
import { defaults, NO_EDIT, type State } from "./state.ts";

const PAUSE = 400; // milliseconds without a key before what was typed is translated

export class SentenceForm extends Part {
  static override properties = {
    state: { attribute: false },
    models: { attribute: false },
    names: { attribute: false },
    heads: { attribute: false },
    normalization: { attribute: false },
    lines: { state: true },
  };
  declare state: State;
  declare models: readonly ModelInfo[];
  declare names: ReadonlyMap<string, string>;
  declare heads: readonly number[]; // of each layer that attends
  declare normalization: Normalization | null;
  declare lines: readonly string[]; // in the field, of which one is read
  private timer = 0;
  private isOpen = false; // whether a link opened the options, which then stay open
  private isPasted = false; // what was last put into the field, so that the caret says nothing
  private shownSource = "";

  constructor() {
    super();
    this.lines = [];
  }

  protected override render(): TemplateResult {
    const info = this.first;
    if (!readsText(info)) {
      return html`<source-file .info=${info} .source=${this.state.source}></source-file>
        <div class="line begin">${this.models.length < 2 ? nothing : this.choice()} ${this.options(nothing)}</div>`;
    }
    return html`<form class="sentence" @submit=${this.submit}>
      <div class="asked">
        <textarea id="source" rows="1" spellcheck="false" dir="auto" lang=${info.source} aria-label="Sentence (${info.source} to ${info.target})"
          @input=${this.type} @compositionend=${this.type} @keydown=${this.enter}></textarea>
        <button type="submit" class="main">Translate</button>
      </div>
      ${this.lines.length < 2 ? nothing : html`<p class="note"><label>${this.lines.length} lines, of which one is read:
        <select id="lines" @change=${this.chooseLine}>
          ${this.lines.map((each, i) => option(i, shortened(each, 90), each === this.state.source))}
        </select></label></p>`}
      <div class="line begin">
        ${this.chips()} ${this.models.length < 2 ? nothing : this.choice()}
        ${this.options(html`<div class="line">${this.examples(info.examples)}
          <label>Begin the translation with
            <input id="prefix" lang=${info.target} autocomplete="off" .value=${this.typedPrefix()} @change=${this.force}></label>
        </div>`)}
      </div>
    </form>`;
  }

  private options(ofText: TemplateResult | typeof nothing): TemplateResult {
    return html`<details class="options" ?open=${(this.isOpen ||= this.hasOptions())}><summary>Options</summary>
      ${ofText}
      <translator-controls .state=${this.state} .search=${this.first.search} .heads=${this.heads} .normalization=${this.normalization}></translator-controls>
    </details>`;
  }

  private chips(): TemplateResult | typeof nothing {
    const found = presets(this.models);
    return found.length === 0 ? nothing : html`<div class="chips" role="group" aria-label="Begin with">${found.map((preset) => html`
      <button type="button" class="chip" title=${preset.meaning} aria-pressed=${isShown(preset, this.state)}
        @click=${() => this.ask("change-state", preset.patch)}>${preset.title}</button>`)}</div>`;
  }

  private choice(): TemplateResult {
    return html`<fieldset class="models"><legend class="hidden">Models</legend>
      ${this.models.map((each, place) => html`<label class="s${place % 7}" title="${count(each.parameters)} parameters"><input type="checkbox" name="model" value=${each.name}
        .checked=${live(this.chosen.includes(each.name))} @change=${this.pick}><span class="swatch"></span>
        ${this.names.get(each.name)}</label>`)}</fieldset>`;
  }

  private examples(examples: ModelInfo["examples"]): TemplateResult | typeof nothing {
    const example = examples.findIndex((each) => each.source === this.state.source);
    return examples.length === 0 ? nothing : html`<label>Example
      <select id="example" @change=${this.choose}>
        ${option(-1, "choose a sentence of the test set", example < 0)}
        ${examples.map((each, i) => option(i, shortened(each.source, 90), i === example))}
      </select></label>`;
  }

  /** Whether a link brings options that are not the defaults: they are then in view. */
  private hasOptions(): boolean {
    const initial = defaults();
    const names = ["beam", "penalty", "temperature", "topP", "seed"] as const;
    return names.some((name) => this.state[name] !== initial[name]) || this.typedPrefix() !== "";
  }

  /** Replaces what is in the field only by another sentence: what a user types keeps its spaces and its caret. */
  protected override updated(): void {
    if (!this.querySelector("textarea") || this.state.source === this.shownSource) return;
    this.shownSource = this.state.source;
    if (!linesOf(this.textarea.value).includes(this.shownSource)) {
      this.textarea.value = this.shownSource;
      this.lines = [this.shownSource];
    }
  }

  private get chosen(): string[] {
    return this.state.models.length > 0 ? this.state.models : [this.first.name];
  }

  /** The chosen model that comes first, whose languages, examples and search the form has. */
  private get first(): ModelInfo {
    return this.models.find((each) => each.name === this.state.models[0]) ?? this.models[0]!;
  }

  /** The typed prefix of the first model; what was chosen token by token shows in the translation. */
  private typedPrefix(): string {
    const prefix = this.state.edits[this.first.name]?.prefix;
    return typeof prefix === "string" ? prefix : "";
  }

  private get textarea(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  private submit(event: Event): void {
    event.preventDefault();
    this.read();
    this.ask("again", null);
  }

  private type(event: Event): void {
    if ((event as InputEvent).isComposing) return;
    this.isPasted = /^insertFrom/.test((event as InputEvent).inputType ?? "");
    this.lines = linesOf(this.textarea.value);
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.read(), PAUSE);
  }

  private enter(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.submit(event);
  }

  private choose(event: Event): void {
    const number = Number((event.target as HTMLSelectElement).value);
    const example = this.first.examples[number];
    if (example) this.send(example.source);
  }

  private chooseLine(event: Event): void {
    this.send(this.lines[Number((event.target as HTMLSelectElement).value)]!);
  }

  /** Reads the line with the caret, or of lines that were pasted the first. */
  private read(): void {
    const { value, selectionStart } = this.textarea;
    this.send(lineToRead(value, this.isPasted ? null : selectionStart, this.state.source));
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

const count = (parameters: number): string =>
  parameters < 1e6 ? `${Math.round(parameters / 1e3)} k` : `${(parameters / 1e6).toFixed(1)} M`;

customElements.define("sentence-form", SentenceForm);
