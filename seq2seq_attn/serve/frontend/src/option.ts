/** What a <select> offers. */

import { html, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";

/** An option, chosen by the property: once a reader picked it, it no longer follows its attribute. */
export const option = (value: string | number, text: string, isChosen: boolean): TemplateResult =>
  html`<option value=${value} .selected=${live(isChosen)}>${text}</option>`;
