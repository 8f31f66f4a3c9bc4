/** The source of a model that reads files: an example of its test set, a file of the user's, or what is said. */

import { html, nothing, type TemplateResult } from "lit";
import type { ModelInfo } from "./api.ts";
import { Part } from "./part.ts";
import { exampleName, exampleOf, keep, lineOf } from "./sent-files.ts";
import { asLine, record, resampled } from "./sound.ts";

const KINDS: Record<string, { noun: string; accept: string }> = {
  speech: { noun: "recording", accept: "audio/*" },
  image: { noun: "picture", accept: "image/*" },
  frames: { noun: "array", accept: ".npy" },
};

export class SourceFile extends Part {
  static override properties = {
    info: { attribute: false },
    source: {},
    problem: { state: true },
    finish: { state: true },
    isAsking: { state: true },
  };
  declare info: ModelInfo;
  declare source: string; // its name in the state
  declare problem: string;
  declare finish: (() => Promise<Blob>) | null; // ends what is being recorded
  declare isAsking: boolean; // whether the microphone may be used
  private recordings = 0;
  private chosen = 0; // sources so far
  private readonly leaving = new AbortController();

  constructor() {
    super();
    this.problem = "";
    this.finish = null;
    this.isAsking = false;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.leaving.abort();
  }

  protected override render(): TemplateResult {
    const { info, source } = this;
    const { noun, accept } = KINDS[info.reads!] ?? { noun: "file", accept: "" };
    const line = lineOf(info, source);
    const isMissing = line === null && source.startsWith("file:");
    const says = this.finish !== null;
    return html`<fieldset class="file"><legend>${noun[0]!.toUpperCase()}${noun.slice(1)}</legend>
      <div class="line">
        ${info.examples.map((example, place) => html`<button type="button" class="chip" aria-pressed=${exampleOf(source) === place}
          @click=${() => this.send(exampleName(place))}>${info.reads === "image"
            ? html`<img alt="Example ${place + 1}: ${example.target}" src=${example.source}>`
            : html`Example ${place + 1} <small lang=${info.target}>${example.target}</small>`}</button>`)}
        <label>Your own <input type="file" accept=${accept} @change=${this.choose}></label>
        ${info.reads === "speech" && "mediaDevices" in navigator ? html`<button type="button" aria-pressed=${says} ?disabled=${this.isAsking}
          @click=${this.say}>${says ? "Stop recording" : "Record"}</button>` : nothing}
      </div>
      ${line !== null && info.reads === "speech" ? html`<audio controls aria-label="The recording" src=${line}></audio>` : nothing}
      ${isMissing ? html`<p class="note">${source.slice("file:".length)} is not part of the link; choose the file again.</p>` : nothing}
      ${this.problem ? html`<p class="error" role="alert">${this.problem}</p>` : nothing}</fieldset>`;
  }

  private send(source: string): void {
    this.chosen += 1;
    this.problem = "";
    if (source !== this.source) return this.ask("change-sentence", source);
    this.requestUpdate(); // the file of a link, which the page has now
    this.ask("again", null);
  }

  private async choose(event: Event): Promise<void> {
    const field = event.target as HTMLInputElement;
    const [file] = field.files ?? [];
    if (file) await this.take(file, file.name);
    field.value = ""; // the same file may be chosen again, after a change
  }

  private async say(): Promise<void> {
    const { finish } = this;
    this.finish = null;
    if (finish) {
      await this.take(await finish(), `recording ${(this.recordings += 1)}`);
      return;
    }
    this.isAsking = true;
    try {
      this.finish = await record(this.leaving.signal);
    } catch (error) {
      this.problem = `The microphone cannot be used: ${(error as Error).message}`;
    }
    this.isAsking = false;
  }

  /** Keeps a file and shows it, unless another source was chosen meanwhile; a sound gets the rate that the model reads. */
  private async take(file: Blob, name: string): Promise<void> {
    const number = (this.chosen += 1);
    const rate = this.info.sample_rate;
    try {
      const line = await asLine(rate ? await resampled(file, rate) : file);
      if (number === this.chosen) this.send(keep(name, line));
    } catch (error) {
      if (number === this.chosen) this.problem = `${name} cannot be read by this browser: ${(error as Error).message}`;
    }
  }
}

customElements.define("source-file", SourceFile);
