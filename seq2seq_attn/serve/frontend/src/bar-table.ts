/** A number for each word, in digits and as a bar. */

import { html, nothing, type TemplateResult } from "lit";
import { share } from "./format.ts";
import { meter } from "./meter.ts";
import { largest, sum } from "./numbers.ts";

/** The headings of the columns; shares of 1 have a row with their sum, which it begins with. */
interface Headings {
  word: string;
  value: string;
  sum?: string;
}

export function barTable(headings: Headings, words: readonly string[], values: readonly number[], format: (value: number) => string, language = ""): TemplateResult {
  const most = headings.sum === undefined ? Math.max(...values.map(Math.abs), 1e-9) : 1;
  const highest = largest(values);
  const bar = (value: number): TemplateResult => meter(Math.abs(value) / most, value < 0 ? "negative" : "");
  return html`<table class="numbers">
    <thead><tr><th scope="col">${headings.word}</th><th scope="col">${headings.value}</th><th></th></tr></thead>
    <tbody>${values.map((value, j) => html`<tr class=${j === highest ? "highest" : ""}><th scope="row" lang=${language || nothing}>${words[j]}</th>
      <td><data value=${value}>${format(value)}</data></td><td class="bar">${bar(value)}</td></tr>`)}</tbody>
    ${headings.sum === undefined ? nothing : html`<tfoot><tr><th scope="row">${headings.sum}</th>
      <td><data value=${sum(values)}>${share(sum(values))}</data></td><td></td></tr></tfoot>`}
  </table>`;
}
