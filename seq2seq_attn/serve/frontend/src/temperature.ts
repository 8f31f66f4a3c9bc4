/** A slider for a temperature from 1/10 to 10, on which dividing by 2 and multiplying by 2 are equally large changes. */

import { html, nothing, type TemplateResult } from "lit";

export function temperatureSlider(id: string, label: string, temperature: number, choose: (temperature: number) => void, meaning = ""): TemplateResult {
  const input = (event: Event): void => choose(Number((10 ** Number((event.target as HTMLInputElement).value)).toPrecision(2)));
  return html`<label class="slider" title=${meaning || nothing}>${label}
    <input type="range" id=${id} min="-1" max="1" step="0.05" .value=${String(Math.log10(temperature))} aria-valuetext=${temperature} @input=${input}>
    <output for=${id}>${temperature}</output></label>`;
}
