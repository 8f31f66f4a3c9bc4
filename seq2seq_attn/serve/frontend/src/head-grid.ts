/** The weights of all heads as thumbnails, a row for each layer; one that is chosen is shown in the other figures. */

import { html, nothing, type TemplateResult } from "lit";
import type { Decoded } from "./api.ts";
import { sum, upTo } from "./numbers.ts";
import { Part } from "./part.ts";
import { reading, type View } from "./reading.ts";
import { cells } from "./shades.ts";

export class HeadGrid extends Part {
  static override properties = {
    decoded: { attribute: false },
    heads: { attribute: false },
    view: { attribute: false },
    isGrowing: { attribute: false },
  };
  declare decoded: Decoded;
  declare heads: readonly number[]; // of each layer that attends
  declare view: View;
  declare isGrowing: boolean; // whether tokens follow: a long translation is not drawn again with each of them

  protected override shouldUpdate(): boolean {
    return !this.isGrowing;
  }

  protected override render(): TemplateResult | typeof nothing {
    if (sum(this.heads) < 2) return nothing;
    return html`<figure class="heads"><figcaption>All heads <small>choose one to see it large</small></figcaption>
      <div class="line">${this.thumbnail("mean of all", { layer: null, head: 0 })}</div>
      ${this.heads.map((count, layer) => html`<div class="line">${upTo(count).map((head) =>
        this.thumbnail(`layer ${layer + 1}, head ${head + 1}`, { layer, head }))}</div>`)}
    </figure>`;
  }

  private thumbnail(name: string, view: View): TemplateResult {
    const { steps, source } = this.decoded;
    const weights = steps.flatMap((step) => reading(step, view)?.weights ?? source.map(() => 0));
    const isShown = view.layer === this.view.layer && view.head === this.view.head;
    return html`<button type="button" aria-pressed=${isShown} @click=${() => this.ask("change-state", view)}>
      <svg viewBox="0 0 ${source.length} ${steps.length}" preserveAspectRatio="none" aria-hidden="true">${cells(weights, steps.length)}</svg>
      ${name}</button>`;
  }
}

customElements.define("head-grid", HeadGrid);
