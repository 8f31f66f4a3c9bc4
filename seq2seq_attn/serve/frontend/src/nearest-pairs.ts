/** The training pairs that a model takes to be like the sentence, or like a step of its translation; read when opened. */

import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import type { Neighbor, NeighborsRequest } from "./api.ts";
import { END, few } from "./format.ts";
import { Part } from "./part.ts";
import { tokensOf } from "./reading.ts";
import { answerTo, inWords } from "./retry.ts";
import { Line, type Pane } from "./session.ts";

const MOST = 10;

export class NearestPairs extends Part {
  static override properties = {
    pane: { attribute: false },
    step: { attribute: false },
    version: { attribute: false },
    isOpen: { state: true },
    found: { state: true },
    note: { state: true },
    busy: { state: true },
  };
  declare pane: Pane;
  declare step: number | null; // null: sources are compared
  declare version: number; // changes with the content of the pane
  declare isOpen: boolean;
  declare found: readonly Neighbor[];
  declare note: string; // what went wrong, or how long to wait
  declare busy: boolean;
  private readonly line = new Line();

  constructor() {
    super();
    this.isOpen = false;
    this.found = [];
    this.note = "";
    this.busy = false;
  }

  protected override render(): TemplateResult | typeof nothing {
    if (!this.pane.hasServer) return nothing; // only a server has the training text
    const title = this.step === null ? "Nearest training sentences" : "Nearest steps of the training text";
    const measure = this.step === null ? "by the mean of the encoder's states" : "by what the next token is predicted from";
    return html`<details class="more near" ?open=${this.isOpen} @toggle=${this.toggle}><summary>${title} <small>${measure}</small></summary>
      <div aria-busy=${this.busy}>
        ${this.note ? html`<p class="note" role="status">${this.note}</p>` : nothing}
        ${this.found.length > 0 ? this.table() : nothing}
      </div></details>`;
  }

  private table(): TemplateResult {
    const { info, edit } = this.pane;
    const isChanged = this.step !== null && edit.interventions.length > 0;
    return html`<div class="scroll tall" tabindex="0" role="region" aria-label="Nearest pairs">
        <table class="pairs"><thead><tr><th scope="col">distance</th>
          <th scope="col">source <small>choose one to translate it</small></th><th scope="col">target</th></tr></thead>
        <tbody>${this.found.map((near) => html`<tr title="line ${near.line} of the training text">
          <td><data value=${near.distance}>${few(near.distance)}</data></td>
          <td><button type="button" lang=${info.source}
            @click=${() => this.ask("change-sentence", near.source)}>${near.source}</button></td>
          <td lang=${info.target}>${near.tokens ? marked(near.tokens, near.step!) : near.target}</td>
        </tr>`)}</tbody></table></div>
      ${isChanged ? html`<p class="note">The states are compared after the same tokens, without the changes of weights and contexts.</p>` : nothing}`;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.line.stop();
  }

  private toggle(event: Event): void {
    this.isOpen = (event.target as HTMLDetailsElement).open;
  }

  protected override updated(changed: PropertyValues): void {
    if (!this.isOpen) this.line.stop();
    else if (["isOpen", "pane", "step", "version"].some((name) => changed.has(name))) this.search();
  }

  private search(): void {
    const { pane, step } = this;
    if (pane.busy > 0 || !pane.current) return; // not with each token that is decoded
    const target = step === null ? {} : { target: tokensOf(pane.current).slice(0, step), step };
    const request = { source: pane.source, most: MOST, ...target };
    this.line.ask(JSON.stringify([pane.info.name, request]), true, (signal) => this.inquire(request, signal));
  }

  /** Asks until the server has read the training text. */
  private async inquire(request: Omit<NeighborsRequest, "model">, signal: AbortSignal): Promise<void> {
    this.busy = true;
    const found = await answerTo(() => this.pane.neighbors(request, signal), signal, ({ error, pause }) => {
      [this.found, this.note, this.busy] = [[], inWords(error, pause), pause !== null];
    });
    if (found) [this.found, this.note, this.busy] = [found, "", false];
  }
}

/** A target with the token of a step marked. */
function marked(tokens: readonly string[], step: number): (TemplateResult | string)[] {
  return tokens.flatMap((token, i) => {
    if (i === step) return [html`<mark class=${token === END ? "end" : ""}>${token}</mark>`, " "];
    return token === END ? [] : [`${token} `];
  });
}

customElements.define("nearest-pairs", NearestPairs);
