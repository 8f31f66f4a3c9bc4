/** The page: holds the state, asks the server through the session, and puts the parts together. */

import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import { type Answers, Api, type ApiError, type ModelInfo } from "./api.ts";
import "./bands.ts";
import { changeBetween } from "./change-names.ts";
import { Changes } from "./changes.ts";
import type { Normalization } from "./controls.ts";
import { saveJson } from "./download.ts";
import {
  atTemperature,
  goingOn,
  intervened,
  normalizerOf,
  ofSettings,
  ofTokens,
  placed,
  temperatureOf,
  withNormalizer,
  withoutStep,
} from "./edits.ts";
import { failureLine } from "./failure-line.ts";
import { placeIn, stepOf } from "./focus.ts";
import { shortNames } from "./format.ts";
import "./heat-map.ts";
import "./hypotheses.ts";
import { commandOf, isTypedInto } from "./keys.ts";
import "./model-comparison.ts";
import "./model-pane.ts";
import { type Asks, Part } from "./part.ts";
import { firstSource } from "./presets.ts";
import { sourceTokens, tokensOf, type View, viewOf } from "./reading.ts";
import "./row-editor.ts";
import { readsText } from "./sent-files.ts";
import "./sentence-form.ts";
import { answerTo, type Failure } from "./retry.ts";
import { Line, Pane } from "./session.ts";
import { type Edit, type FromLink, isEdited, NO_EDIT, ofServed, parseState, type State, writeState } from "./state.ts";
import "./step-panel.ts";
import { forgetWidths } from "./text-width.ts";
import "./story/story.ts";
import "./tools.ts";
import type { PageTools } from "./tools.ts";
import "./translations.ts";
import "./walk.ts";
import "./words-read.ts";

export class AttentionPage extends Part {
  static override properties = {
    state: { state: true },
    models: { state: true },
    unread: { state: true },
    problem: { state: true },
    version: { state: true },
    announced: { state: true },
    isPresenting: { state: true },
  };
  declare state: State;
  declare models: readonly ModelInfo[];
  declare unread: readonly string[]; // what was left out of the link
  declare problem: Failure | null; // there are no models
  declare version: number; // counts the server's answers
  declare announced: string; // for screen readers
  declare isPresenting: boolean; // in large type, without forms
  static answers: Answers = new Api(); // replaced before the first page is made
  private readonly api = AttentionPage.answers;
  private readonly panes = new Map<string, Pane>();
  private readonly changes = new Changes(history, () => this.requestUpdate());
  private readonly loading = new Line();

  constructor() {
    super();
    ({ state: this.state, unread: this.unread } = parseState(location.hash.slice(1)));
    this.models = [];
    this.problem = null;
    this.version = 0;
    this.announced = "";
    this.isPresenting = false;
    this.listen("change-state", (patch) => this.change(patch));
    this.listen("change-sentence", (source) => {
      const edits = Object.entries(this.state.edits).map(([model, edit]) => [model, ofSettings(edit)] as const);
      this.change({ source, edits: Object.fromEntries(edits.filter(([, edit]) => isEdited(edit))) });
    });
    this.listen("again", () => {
      for (const pane of this.shown) pane.again(this.state);
    });
    this.listen("focus-step", (focus) => this.change({ focus }));
    this.listen("set-row", ({ model, step, weights }) =>
      this.intervene(model, step, { replace: "weights", weights }));
    this.listen("intervene", ({ model, step, replace, other }) =>
      this.intervene(model, step, other === undefined ? { replace } : { replace, other }));
    this.listen("go-on", ({ model, prefix }) => {
      this.change({ focus: { model, step: prefix.length - 1 }, ...this.edited(model, (edit) => goingOn(edit, prefix)) });
    });
    this.listen("set-tokens", ({ model, tokens }) => {
      const base = this.panes.get(model)?.base;
      const isOwn = tokens.length === 0 || (base && tokens.join(" ") === sourceTokens(base).join(" "));
      this.change(this.edited(model, (edit) => ofTokens(edit, isOwn ? null : tokens)));
    });
    this.listen("set-temperature", (temperature) =>
      this.renormalize((edit, view) => atTemperature(edit, view, temperature)));
    this.listen("set-normalizer", (normalizer) =>
      this.renormalize((edit, view) => withNormalizer(edit, view, normalizer)));
    this.listen("reset", ({ model, step }) => {
      this.change(this.edited(model, (edit) => (step === null ? NO_EDIT : withoutStep(edit, step))));
    });
    this.listen("enter", () => this.changes.flush());
    this.listen("go-to", (place) => this.changes.go(place));
    this.listen("present", () => (this.isPresenting = !this.isPresenting));
    addEventListener("keydown", (event) => this.key(event));
    for (const name of ["pointerdown", "pointerup", "pointercancel"]) {
      addEventListener(name, () => this.changes.press(name === "pointerdown"), { capture: true });
    }
    addEventListener("popstate", (event) => this.arrive(event.state));
    void document.fonts.ready.then(() => {
      forgetWidths();
      this.version += 1;
    });
    this.loading.ask("models", true, (signal) => this.load(signal));
  }

  private listen<Name extends keyof Asks>(name: Name, answer: (detail: Asks[Name]) => void): void {
    this.addEventListener(name, (event) => answer((event as CustomEvent<Asks[Name]>).detail));
  }

  private async load(signal: AbortSignal): Promise<void> {
    const models = await answerTo(() => this.api.models(), signal, (problem) => (this.problem = problem));
    if (!models) return;
    [this.models, this.problem] = [models, null];
    const [first] = models;
    const { state, unread } = this.served({ state: this.state, unread: this.unread });
    this.state = { ...state, source: state.source || firstSource(first!) };
    this.unread = unread;
    this.changes.begin(writeState(this.state));
  }

  /** What was read from a link, without the models that are not served. */
  private served({ state, unread }: FromLink): FromLink {
    if (this.models.length === 0) return { state, unread }; // not known yet
    const found = ofServed(state, this.models.map(({ name }) => name));
    return { state: found.state, unread: [...unread, ...found.unread] };
  }

  private change(patch: Partial<State>): void {
    const before = this.state;
    this.state = { ...before, ...patch };
    this.unread = [];
    this.changes.note(changeBetween(before, this.state), writeState(this.state));
  }

  /** Shows the entry of the history at which the browser is now: after Back or Forward, or another link. */
  private arrive(entry: unknown): void {
    const address = location.hash.slice(1);
    const { state, unread } = this.served(parseState(address));
    this.changes.arrive(entry, address);
    this.unread = unread;
    // A link to one tab says nothing of the others, and one without a sentence keeps the one that is shown.
    const { tab, walk, language } = state;
    if (tab === "walk") this.state = { ...this.state, tab, walk };
    else if (tab === "story") this.state = { ...this.state, tab, language };
    else this.state = { ...state, source: state.source || this.state.source, walk: this.state.walk, language: this.state.language };
  }

  private key(event: KeyboardEvent): void {
    const command = commandOf(event, isTypedInto(event.target as Element));
    if (!command || (command !== "help" && document.querySelector("dialog[open], :popover-open"))) return;
    if (command !== "leave") event.preventDefault();
    if (command === "undo") this.changes.go(this.changes.trail.place - 1);
    if (command === "redo") this.changes.go(this.changes.trail.place + 1);
    if (command === "help") this.querySelector<PageTools>("page-tools")!.showKeys();
    if (command === "present" || command === "leave") this.isPresenting = command === "present" && !this.isPresenting;
  }

  private edited(model: string, change: (edit: Edit) => Edit): Pick<State, "edits"> {
    return { edits: { ...this.state.edits, [model]: change(this.state.edits[model] ?? NO_EDIT) } };
  }

  private intervene(model: string, step: number | null, replacement: Parameters<typeof placed>[2]): void {
    const decoded = this.panes.get(model)?.current;
    if (!decoded) return;
    const added = placed(viewOf(this.state, this.panes.get(model)!.info), step, replacement);
    this.change({
      ...(step !== null && { focus: { model, step } }),
      ...this.edited(model, (edit) => intervened(edit, tokensOf(decoded), added)),
    });
  }

  /** The panes of the chosen models, in the order in which they are served. */
  private get shown(): Pane[] {
    const known = this.models.filter((each) => this.state.models.includes(each.name));
    return (known.length > 0 ? known : this.models.slice(0, 1)).map((info) => {
      const pane = this.panes.get(info.name) ?? new Pane(info, this.api, (error) => this.answered(error));
      this.panes.set(info.name, pane);
      return pane;
    });
  }

  /** The shown models whose weights can be recomputed from their scores. */
  private get normalizing(): ModelInfo[] {
    return this.shown.map(({ info }) => info).filter(({ normalizers = [] }) => normalizers.length > 0);
  }

  /** What the controls show: the choices for the first of these models; null if there is none. */
  private get normalization(): Normalization | null {
    const [first] = this.normalizing;
    if (!first) return null;
    const [edit, view] = [this.state.edits[first.name] ?? NO_EDIT, viewOf(this.state, first)];
    return {
      temperature: temperatureOf(edit, view),
      normalizer: normalizerOf(edit, view),
      normalizers: first.normalizers!,
    };
  }

  private renormalize(change: (edit: Edit, view: View) => Edit): void {
    const edits = this.normalizing.map((info) => [
      info.name,
      change(this.state.edits[info.name] ?? NO_EDIT, viewOf(this.state, info)),
    ]);
    this.change({ edits: { ...this.state.edits, ...Object.fromEntries(edits) } });
  }

  private answered(error?: ApiError): void {
    if (error?.status === 401) this.problem = { error, pause: null };
    this.version += 1;
    const done = this.shown.filter((pane) => pane.busy === 0 && pane.current);
    if (done.length === this.shown.length) {
      this.announced = done.map((pane) => `${pane.info.name}: ${pane.current!.text}`).join("; ");
    }
  }

  protected override willUpdate(changed: PropertyValues): void {
    if (!changed.has("state") && !changed.has("models")) return;
    if (this.state.tab !== "translate") return;
    const shown = this.shown;
    for (const pane of this.panes.values()) {
      if (shown.includes(pane)) pane.sync(this.state);
      else pane.stop();
    }
  }

  protected override updated(): void {
    document.documentElement.classList.toggle("presenting", this.isPresenting);
  }

  protected override render(): TemplateResult {
    const { tab } = this.state;
    const link = (name: State["tab"], title: string): TemplateResult => html`<a href="#${name}" aria-current=${tab === name ? "page" : "false"}
      @click=${(event: Event) => { event.preventDefault(); this.change({ tab: name }); }}>${title}</a>`;
    return html`<header><h1>Attention in translation</h1>
        <nav aria-label="Pages">${link("translate", "Translate")} ${link("walk", "Walk")} ${link("story", "Story")} ${this.api.isServer ? html`<a href="docs">Endpoints</a>` : nothing}</nav>
        <page-tools .trail=${this.changes.trail} .isPresenting=${this.isPresenting}></page-tools></header>
      <main>
        ${this.problem ? this.error(this.problem) : nothing}
        ${this.unread.length > 0 ? html`<p class="error" role="status">Left out of the link, as it cannot be read: ${this.unread.join("; ")}.</p>` : nothing}
        ${tab === "walk" ? html`<walk-page .state=${this.state.walk}></walk-page>` : tab === "story" ? this.story() : this.translation()}
      </main>
      <p class="hidden" role="status" aria-live="polite">${this.announced}</p>`;
  }

  private story(): TemplateResult | typeof nothing {
    if (this.models.length === 0) return nothing;
    return html`<story-page .answers=${this.api} .models=${this.models} .sentence=${this.state.source} .language=${this.state.language}></story-page>`;
  }

  private translation(): TemplateResult | typeof nothing {
    if (this.models.length === 0) return this.problem ? nothing : html`<p class="note">Loading the models …</p>`;
    const { state, shown, version } = this;
    const place = placeIn(state.focus, shown);
    const names = shortNames(this.models.map((each) => each.name));
    const heads = shown.map((pane) => pane.info.heads).sort((a, b) => b.length - a.length)[0] ?? [];
    return html`<sentence-form .state=${state} .models=${this.models} .names=${names} .heads=${heads}
        .normalization=${this.normalization}></sentence-form>
      <words-read .panes=${shown} .names=${names} .version=${version}></words-read>
      <section class="result" aria-label="Translations">
        ${readsText(shown[0]!.info) ? html`<p class="said" lang=${shown[0]!.info.source}>${state.source}</p>` : nothing}
        <translation-rows .panes=${shown} .names=${names} .focusPlace=${place} .version=${version}></translation-rows>
        <div class="line">
          <button type="button" ?disabled=${Object.keys(state.edits).length === 0}
            @click=${() => this.change({ edits: {} })}>Reset all changes</button>
          <button type="button" @click=${() => this.save(shown)}>Save as JSON</button>
        </div>
      </section>
      <div class="panes">${shown.map((pane) => html`<model-pane class="s${this.models.indexOf(pane.info) % 7}" .pane=${pane} .name=${names.get(pane.info.name)}
        .step=${stepOf(pane, place, shown)} .view=${viewOf(state, pane.info)}
        .sampled=${state.temperature !== null} .version=${version}></model-pane>`)}</div>
      ${shown.length < 2 ? nothing : html`<model-comparison .step=${stepOf(shown[0]!, place, shown)} .version=${version}
        .models=${shown.map((pane) => ({
          pane, name: names.get(pane.info.name)!, color: this.models.indexOf(pane.info) % 7, view: viewOf(state, pane.info),
        }))}></model-comparison>`}`;
  }

  private error(problem: Failure): TemplateResult {
    if (problem.error.status !== 401) return failureLine(problem, () => this.loading.again());
    const enter = (event: SubmitEvent): void => {
      event.preventDefault();
      this.api.key = String(new FormData(event.target as HTMLFormElement).get("key"));
      for (const pane of this.panes.values()) pane.stop();
      this.problem = null;
      this.loading.again();
    };
    return html`<div class="error" role="alert">${problem.error.message}
      <form class="line" @submit=${enter}><label>API key <input name="key" type="password" autocomplete="off"></label>
        <button type="submit">Send</button></form></div>`;
  }

  private save(shown: readonly Pane[]): void {
    const translations = shown.map((pane) => ({
      model: pane.info.name, translation: pane.base, edit: pane.edit, changed: pane.changed, hypotheses: pane.hypotheses,
    }));
    saveJson("translations", { state: this.state, translations });
  }
}

customElements.define("attention-page", AttentionPage);
