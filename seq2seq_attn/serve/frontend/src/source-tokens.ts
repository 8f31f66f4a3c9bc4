/** The tokens of the sentence as the model reads them, to be split and joined by hand. */

import { html, nothing, type TemplateResult } from "lit";
import { Part } from "./part.ts";
import { wordsIn } from "./sentences.ts";

export class SourceTokens extends Part {
  static override properties = {
    model: {},
    language: {},
    tokens: { attribute: false },
    isEdited: { attribute: false },
  };
  declare model: string;
  declare language: string;
  declare tokens: readonly string[] | null; // without the end of the sentence; null until the server has answered
  declare isEdited: boolean;

  protected override render(): TemplateResult | typeof nothing {
    const { tokens } = this;
    if (!tokens || tokens.length === 0) return nothing;
    const count = `${tokens.length} source token${tokens.length === 1 ? "" : "s"}`;
    const reset = html`<button type="button" @click=${() => this.send([])}>Use those of the tokenizer</button>`;
    return html`<details class="more" ?open=${this.isEdited}><summary>${count}${this.isEdited ? ", by hand" : ""}
        <small>split or join them</small></summary>
      <label class="tokens">Tokens <input lang=${this.language} autocomplete="off" spellcheck="false"
        .value=${tokens.join(" ")} @change=${this.change}></label>
      <p class="note">Spaces separate tokens: type one to split a token, delete one to join two. Each must be in the model's
        vocabulary; ${"<unk>"} stands for an unknown one. ${this.isEdited ? reset : nothing}</p></details>`;
  }

  private change(event: Event): void {
    this.send(wordsIn((event.target as HTMLInputElement).value));
  }

  private send(tokens: string[]): void {
    this.ask("set-tokens", { model: this.model, tokens });
  }
}

customElements.define("source-tokens", SourceTokens);
