/** The way from a step of a model to the lesson, which goes on with the step's scores, weights and values. */

import { html, type TemplateResult } from "lit";
import type { Reading, View } from "./reading.ts";
import { Part } from "./part.ts";
import { Line, type Pane } from "./session.ts";
import { walkOf } from "./walk-state.ts";

export class WalkWith extends Part {
  static override properties = {
    pane: { attribute: false },
    step: { attribute: false },
    view: { attribute: false },
    found: { attribute: false },
  };
  declare pane: Pane;
  declare step: number;
  declare view: View;
  declare found: Reading; // what the step read, with scores
  private readonly line = new Line();

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.line.stop();
  }

  protected override render(): TemplateResult {
    return html`<button type="button" @click=${this.go}>Walk with these numbers</button>`;
  }

  private go(): void {
    const { pane, step, view, found } = this;
    const { source, steps } = pane.current!;
    this.line.ask(JSON.stringify([pane.info.name, source, step, view]), true, async (signal) => {
      // Without values, the scores and weights are enough for the lesson.
      const plane = await pane.plane(view.layer ?? 0, view.head, signal).catch(() => null);
      if (signal.aborted) return;
      const { token } = steps[step]!;
      const given = { model: pane.info.name, token, link: location.hash.slice(1), words: source, scores: found.scores!, weights: found.weights };
      this.ask("change-state", { tab: "walk", walk: walkOf(given, plane) });
    });
  }
}

customElements.define("walk-with", WalkWith);
