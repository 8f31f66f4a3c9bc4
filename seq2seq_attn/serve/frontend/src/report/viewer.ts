/** Attention on any sentence of the page, in two arms, one step at a time. The address holds what is shown. */

import { html, nothing, type TemplateResult } from "lit";
import "../beam-tree.ts";
import type { TreeNode } from "../beam-tree.ts";
import { fixed } from "../format.ts";
import { type Asks, Part } from "../part.ts";
import { type Filters, readAddress, SECTION, type State, writeAddress } from "./address.ts";
import { upTo } from "../numbers.ts";
import type { Corpus, View } from "./corpus.ts";
import { hasPieces, merged, type Shown } from "./merge.ts";
import { glossed } from "./panel.ts";
import "./sentence-finder.ts";

interface Panel {
  view: View;
  path: number; // of the view's translations
  shown: Shown;
  gold: readonly (readonly number[])[]; // of each row, the positions of a source that is seen
}

const attends = (view: View): boolean => view.steps.some(([, , weights]) => weights !== null);

/** The arms of two panels: the wanted ones, as far as they exist, then the best arm that attends. */
function chosenArms(views: readonly View[], wanted: readonly string[], best: string): string[] {
  const attending = views.filter(attends);
  const find = (arm: string | undefined): View | undefined => views.find((view) => view.arm === arm);
  const first = find(wanted[0]) ?? attending.find(({ arm }) => arm === best) ?? attending[0] ?? views[0];
  const second = find(wanted[1]) ?? [...attending, ...views].find((view) => view !== first);
  return [first, second].flatMap((view) => (view ? [view.arm] : []));
}

export class AttentionViewer extends Part {
  static override properties = { state: { state: true }, paths: { state: true } };
  declare state: State;
  declare paths: readonly number[]; // the translation of each panel; 0 is the reference
  private views: readonly View[] = []; // of the sentence, in all arms
  private asked = 0; // sentences so far

  constructor(private readonly corpus: Corpus) {
    super();
    this.addEventListener("focus-step", (event) => this.stepTo((event as CustomEvent<Asks["focus-step"]>).detail.step));
    addEventListener("hashchange", () => location.hash.startsWith(SECTION) && void this.restore());
  }

  /** Shows what the address says; also called before the element is put on the page. */
  async restore(): Promise<void> {
    const state = readAddress(location.hash, this.corpus);
    await this.show(state.place, () => state);
  }

  /** Takes a state once the weights are there; false if another sentence was asked for before. */
  private async show(place: number, stateThen: () => State): Promise<boolean> {
    const number = (this.asked += 1);
    const views = await this.corpus.viewsOf(place);
    if (number !== this.asked) return false;
    const state = stateThen();
    this.views = views;
    this.paths = [0, 0];
    this.state = { ...state, arms: chosenArms(this.views, state.arms, this.corpus.best) };
    return true;
  }

  /** A change by the user is written into the address. */
  private change(patch: Partial<State>): void {
    this.state = { ...this.state, ...patch };
    history.replaceState(null, "", writeAddress(this.state, this.corpus));
  }

  private async showSentence(place: number): Promise<void> {
    if (await this.show(place, () => ({ ...this.state, place, step: 0 }))) this.change({});
  }

  private get panels(): Panel[] {
    const { place, pieces, arms } = this.state;
    const { gold } = this.corpus.pairs[place]!;
    const isSeen = this.corpus.seenOf(place) !== null;
    return arms.map((arm, number) => {
      const view = this.views.find((each) => each.arm === arm)!;
      const path = this.paths[number]!;
      const shown = merged(view, view.paths[path], pieces, isSeen ? [] : gold);
      const wordOf = pieces ? view.paths[path]?.words : upTo(shown.rows.length);
      const links = shown.rows.map((_, row) => gold.filter(([, word]) => path === 0 && word === wordOf?.[row]).map(([position]) => position));
      return { view, path, shown, gold: isSeen ? links : [] };
    });
  }

  private stepTo(step: number): void {
    const last = Math.max(0, ...this.panels.map(({ shown }) => shown.rows.length - 1));
    this.change({ step: Math.max(0, Math.min(step, last)) });
  }

  private chooseArm(panel: number, arm: string): void {
    this.choosePath(panel, 0);
    this.change({ arms: this.state.arms.map((each, number) => (number === panel ? arm : each)) });
  }

  private choosePath(panel: number, path: number): void {
    this.paths = this.paths.map((each, number) => (number === panel ? path : each));
  }

  protected override render(): TemplateResult {
    const { corpus, panels, views, state: { place, pieces, filters } } = this;
    const { source, reference } = corpus.pairs[place]!;
    const seen = corpus.seenOf(place);
    const rows = Math.max(1, ...panels.map(({ shown }) => shown.rows.length));
    const step = Math.min(this.state.step, rows - 1);
    return html`
      <sentence-finder .corpus=${corpus} .filters=${filters} .place=${place}
        @change-filters=${({ detail }: CustomEvent<Filters>) => this.change({ filters: detail })}
        @choose-sentence=${({ detail }: CustomEvent<number>) => this.showSentence(detail)}></sentence-finder>
      <div class="sentence-texts"><p class="text" id="source" dir="auto">${glossed(source, corpus.glosses)}</p>
        <p class="text" id="reference" dir="auto">${glossed(reference, corpus.glosses)}</p>${seen?.audio ?? nothing}</div>
      <div class="stepper">
        <button type="button" id="back" aria-label="One step back" @click=${() => this.stepTo(step - 1)}>◀</button>
        <label>Step <input type="range" id="step" min="1" max=${rows} .value=${String(step + 1)}
          @input=${({ target }: Event) => this.stepTo(Number((target as HTMLInputElement).value) - 1)}></label>
        <button type="button" id="on" aria-label="One step forward" @click=${() => this.stepTo(step + 1)}>▶</button>
        ${views.some(hasPieces) ? html`<label id="by-pieces"><input type="checkbox" id="pieces" .checked=${pieces}
          @change=${() => this.change({ pieces: !pieces })}> subword pieces</label>` : nothing}
      </div>
      <div class="pair" id="panels">${panels.map(({ view, path, shown, gold }, number) => html`
        <attention-panel .corpus=${corpus} .place=${place} .views=${views} .view=${view} .path=${path} .shown=${shown} .step=${step}
          .seen=${seen} .gold=${gold}
          @choose-arm=${({ detail }: CustomEvent<number>) => this.chooseArm(number, views[detail]!.arm)}
          @choose-path=${({ detail }: CustomEvent<number>) => this.choosePath(number, detail)}></attention-panel>`)}</div>
      <p class="hint">${this.explanation(panels)}</p>
      ${this.beam(panels, step)}`;
  }

  private explanation(panels: readonly Panel[]): (string | TemplateResult)[] {
    const steps = this.views.flatMap((view) => view.steps);
    const hasGold = panels.some(({ shown, gold }) => shown.links.length > 0 || gold.some((row) => row.length > 0));
    const isSeen = this.corpus.seenOf(this.state.place) !== null;
    const goldIs = hasGold ? "; gold links are outlined" : "";
    return [
      isSeen
        ? `The source is clear where the step has its largest weight, and in fog where it has none${goldIs}. `
        : `Rows are predicted words, columns are source words; darker cells have larger weights${goldIs}. `,
      isSeen ? "Arrow keys move through the steps. " : "Arrow keys move through the rows. ",
      this.views.some(hasPieces)
        ? "Weights are summed over the pieces of a source word and averaged over the pieces of a target word. " : "",
      this.corpus.arms.length > 0 && !isSeen ? "Weights are rounded to multiples of 1/255, except on the examples. " : "",
      steps.some(([, , , , shares]) => shares !== null)
        ? html`The share is the contribution of a position of the source to the context, a<sub>j</sub>‖v<sub>j</sub>‖ divided by its sum over
            all positions (Kobayashi et al., 2020).` : "",
    ];
  }

  /** The beam of the first panel that has one; choosing a step selects the best translation through it. */
  private beam(panels: readonly Panel[], step: number): TemplateResult | typeof nothing {
    const number = panels.findIndex(({ view }) => view.tree.length > 0);
    if (number < 0) return nothing;
    const { view, path, shown } = panels[number]!;
    const hypotheses = view.paths.slice(1);
    const nodes = view.tree.map(([index, row, column, parentRow, rank]): TreeNode => {
      const [token, logProbability] = view.steps[index]!;
      const p = Math.exp(logProbability ?? 0);
      const ends = hypotheses.flatMap(({ steps }, place) => (steps.at(-1) === index ? [`#${place + 1}`] : []));
      return { token, row, column, parentRow, isKept: rank !== null, isFree: rank !== null, note: p < 0.005 ? "<0.01" : fixed(p, 2), ends };
    });
    const among = (steps: readonly number[]): Set<number> =>
      new Set(view.tree.flatMap(([index], place) => (steps.includes(index) ? [place] : [])));
    const choose = (place: number): void => {
      const [index, , , , rank] = view.tree[place]!;
      const { rows } = merged(view, view.paths[rank!], this.state.pieces, []);
      this.choosePath(number, rank!);
      this.change({ step: rows.findIndex(({ steps }) => steps.includes(index)) });
    };
    return html`<details id="beam"><summary>Beam search of <bdi>${view.arm}</bdi></summary>
      <ol class="found">${hypotheses.map(({ steps, score }) => html`<li><span class="text" dir="auto">${
        steps.map((index) => `${view.steps[index]![0]} `)}</span> <small>score ${fixed(score!, 3)}</small></li>`)}</ol>
      <p class="hint">The number after each token is its probability given the previous tokens; branches that end early were
        pruned. Arrow keys move through the tree; Enter shows the attention of a step.</p>
      <beam-tree name="Beam search of ${view.arm}" .nodes=${nodes} .path=${among(view.paths[path]?.steps ?? [])}
        .chosen=${among(shown.rows[Math.min(step, shown.rows.length - 1)]?.steps ?? [])}
        @choose-node=${({ detail }: CustomEvent<number>) => choose(detail)}></beam-tree></details>`;
  }
}

customElements.define("attention-viewer", AttentionViewer);
