/** All translations of the sentence, aligned step by step: each model's, and beside it the one after changes. */

import { html, nothing, type TemplateResult } from "lit";
import { aligned, type Cell } from "./align.ts";
import type { Decoded, Step } from "./api.ts";
import { END, fixed, share, spoken } from "./format.ts";
import { invitation } from "./invitation.ts";
import { Part, reveal } from "./part.ts";
import { tokensOf } from "./reading.ts";
import "./scroll-box.ts";
import type { Pane } from "./session.ts";
import type { Place } from "./state.ts";

/** A translation in a row; `step` counts in this translation. */
interface Line {
  pane: Pane;
  name: string;
  kind: "base" | "changed";
  decoded: Decoded | null; // null: nothing was changed yet; the row keeps its place, so that the page stays still
  isCurrent: boolean; // the one whose steps are shown
}

/** Whether a token was forced, drawn at random, or kept by a beam although another one was more probable. */
const isForced = (step: Step): boolean => step.likely[0] !== undefined && step.likely[0].token !== step.token;

export class TranslationRows extends Part {
  static override properties = {
    panes: { attribute: false },
    names: { attribute: false },
    focusPlace: { attribute: false },
    version: { attribute: false },
  };
  declare panes: readonly Pane[];
  declare names: ReadonlyMap<string, string>;
  declare focusPlace: Place | null;
  declare version: number;
  private revealed: string | undefined; // the place that was scrolled to

  protected override render(): TemplateResult | typeof nothing {
    const lines = this.panes.flatMap((pane): Line[] => {
      const name = this.names.get(pane.info.name)!;
      const { base, changed } = pane;
      return [
        { pane, name, kind: "base", decoded: base, isCurrent: changed === null },
        ...(changed || this.panes.length === 1
          ? [{ pane, name: `${name}, changed`, kind: "changed" as const, decoded: changed, isCurrent: true }]
          : []),
      ];
    });
    const known = lines.filter((line) => line.decoded !== null);
    const columns = aligned(known.map(({ decoded }) => tokensOf(decoded!)));
    return html`<scroll-box class="scroll named">
        <table class="translations" aria-label="Translations, step by step">
          <tbody>${lines.map((line) => this.row(line, columns[known.indexOf(line)]))}</tbody>
        </table>
      </scroll-box>
      <p class="note">${this.invite() ?? nothing} ${known.length > 1 ? html`<span class="key differs">Marked</span> tokens differ from the first row. ` : nothing}
        ${known.some(({ decoded }) => decoded!.steps.some(isForced))
          ? html`<span class="key forced">Dotted</span> tokens are not the most probable ones of their step.`
          : nothing}</p>`;
  }

  private row({ pane, name, kind, decoded, isCurrent }: Line, cells: readonly (Cell | null)[] = []): TemplateResult {
    const own = this.focusPlace?.model === pane.info.name ? this.focusPlace.step : null;
    if (!decoded) {
      return html`<tr class="none"><th scope="row">${name}</th>
        <td colspan="99"><small>${kind === "changed" ? "nothing is changed yet" : pane.busy > 0 ? "translating …" : ""}</small></td></tr>`;
    }
    return html`<tr class="${kind} ${pane.isStale(kind) ? "stale" : ""}" data-model=${pane.info.name} data-kind=${kind} lang=${pane.info.target}
        @keydown=${this.move}>
      <th scope="row" lang="en">${name}</th>
      ${cells.map((cell) => {
        if (!cell) return html`<td class="gap"></td>`;
        return html`<td>${this.token(cell, decoded.steps[cell.step]!, pane, isCurrent, own)}</td>`;
      })}
      <td class="total" lang="en">${decoded.steps.length > 0 ? html`<small>ln p = <data value=${decoded.log_probability}>${fixed(decoded.log_probability, 2)}</data></small>` : nothing}</td>
    </tr>`;
  }

  private token(cell: Cell, step: Step, pane: Pane, isCurrent: boolean, focused: number | null): TemplateResult {
    const isFocused = isCurrent && focused === cell.step;
    const notes = `${cell.differs ? ", differs from the first row" : ""}${isForced(step) ? ", not the most probable" : ""}`;
    const probability = share(Math.exp(step.log_probability));
    return html`<button type="button" class="token ${cell.differs ? "differs" : ""} ${isForced(step) ? "forced" : ""} ${cell.token === END ? "end" : ""}"
      aria-pressed=${isFocused} aria-label="${spoken(cell.token)}${notes}" title="p = ${probability}"
      tabindex=${cell.step === (isCurrent ? (focused ?? 0) : 0) ? 0 : -1}
      @click=${() => this.ask("focus-step", { model: pane.info.name, step: cell.step })}>${cell.token}</button>
      ${pane.glosses.size > 0 ? html`<small class="gloss" lang="en">${pane.glosses.get(cell.token)}</small>` : nothing}`;
  }

  /** One sentence about the first thing to do, made from the sentence; null where no word can be dragged, or one was. */
  private invite(): TemplateResult | null {
    const pane = this.panes.find(({ info }) => info.name === this.focusPlace?.model);
    if (!pane?.base || pane.changed) return null;
    const step = pane.base.steps[this.focusPlace!.step];
    const found = step?.weights ? invitation(pane.base.source, step.weights) : null;
    if (!found) return null;
    const word = (place: number): TemplateResult => html`<b lang=${pane.info.source}>${pane.base!.source[place]}</b>`;
    return html`<span class="invite">Drag ${word(found.from)} to ${word(found.to)}: step ${this.focusPlace!.step + 1} then reads
      ${word(found.to)}, and the model goes on from there.</span>`;
  }

  /** The chosen token of a link is brought into view. */
  protected override updated(): void {
    const [scroller, chosen] = [this.querySelector(".scroll"), this.querySelector<HTMLElement>(".token[aria-pressed=true]")];
    const key = chosen ? `${chosen.textContent} ${this.focusPlace?.model} ${this.focusPlace?.step}` : undefined;
    if (scroller && chosen && key !== this.revealed) {
      const names = this.querySelector("th")!.offsetWidth; // which cover the left side
      const cell = chosen.closest("td")!;
      reveal(scroller, cell.offsetLeft + cell.offsetWidth / 2, names);
    }
    this.revealed = key;
  }

  /** Arrow keys go from token to token within a row, and choose the step. */
  private move(event: KeyboardEvent): void {
    const direction = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (direction === undefined) return;
    const row = event.currentTarget as HTMLElement;
    const tokens = [...row.querySelectorAll<HTMLButtonElement>("button")];
    const next = tokens[tokens.indexOf(event.target as HTMLButtonElement) + direction];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  }
}

customElements.define("translation-rows", TranslationRows);
