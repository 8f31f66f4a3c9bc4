/** A failure in one line, with a button that asks again where the same question may be answered later. */

import { html, nothing, type TemplateResult } from "lit";
import { type Failure, inWords, mayPass } from "./retry.ts";

export function failureLine({ error, pause }: Failure, again: () => void): TemplateResult {
  return html`<p class="error" role="alert">${inWords(error, pause)}
    ${mayPass(error) ? html`<button type="button" @click=${again}>Try again</button>` : nothing}</p>`;
}
