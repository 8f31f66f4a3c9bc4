/** Hypotheses as a tree on a grid: a column for each step, a row for each branch. */

import { html, nothing, type PropertyValues, type TemplateResult } from "lit";
import "./beam-tree.css";
import { ARROWS } from "./keys.ts";
import { Part, reveal } from "./part.ts";

export interface TreeNode {
  token: string;
  row: number; // counted from 1, as columns are; the root <s> is at row 1 and column 1
  column: number;
  parentRow: number; // the node before is there, one column to the left
  isKept: boolean; // whether a hypothesis contains the step
  isFree: boolean; // whether it can be chosen
  note: string; // beside the token
  ends: readonly string[]; // of the hypotheses that end here
}

const ASIDE = 3; // how much more a cell aside counts than a cell ahead

export class BeamTree extends Part {
  static override properties = {
    name: {},
    language: {},
    nodes: { attribute: false },
    path: { attribute: false },
    chosen: { attribute: false },
    focused: { state: true },
  };
  declare name: string;
  declare language: string;
  declare nodes: readonly TreeNode[];
  declare path: ReadonlySet<number>; // the nodes of the hypothesis that is shown
  declare chosen: ReadonlySet<number>; // the nodes of the step that is shown
  declare focused: number; // the node that the Tab key goes to

  constructor() {
    super();
    this.language = "";
    this.path = new Set();
    this.chosen = new Set();
    this.focused = 0;
  }

  protected override willUpdate(): void {
    if (this.focused >= this.nodes.length) this.focused = 0;
  }

  protected override render(): TemplateResult {
    // Places are set as properties: the policy of the server's page allows no attributes `style`.
    return html`<div class="scroll"><div class="tree" role="tree" aria-label=${this.name}
        @click=${this.pick} @keydown=${this.press} @focusin=${this.focusIn}>
      <span class="node kept" .style=${"grid-area: 1/1"}>${"<s>"}</span>
      ${this.nodes.map((node, i) => this.node(node, i))}
    </div></div>`;
  }

  private node({ token, row, column, parentRow, isKept, isFree, note, ends }: TreeNode, i: number): TemplateResult {
    const isOn = row === parentRow;
    const isChosen = this.chosen.has(i);
    const marks = { kept: isKept, free: isFree, on: isOn, lit: this.path.has(i), now: isChosen };
    const classes = Object.entries(marks).flatMap(([name, holds]) => (holds ? [name] : []));
    return html`${isOn ? nothing : html`<i .style=${`grid-area: ${parentRow}/${column}/${row + 1}`}></i>`}
      <span class="node ${classes.join(" ")}" role="treeitem" data-node=${i} aria-level=${column - 1}
        aria-selected=${isChosen} aria-disabled=${!isFree} tabindex=${i === this.focused ? 0 : -1}
        .style=${`grid-area: ${row}/${column}`}><bdi lang=${this.language}>${token}</bdi>${note ? html`<small>${note}</small>` : nothing}${
          ends.map((end) => html`<b class="score">${end}</b>`)}</span>`;
  }

  protected override updated(changed: PropertyValues): void {
    const scroller = this.querySelector(".scroll");
    const node = this.querySelector<HTMLElement>(".now");
    if (changed.has("chosen") && scroller && node) reveal(scroller, node.offsetLeft + node.offsetWidth / 2);
  }

  private at(event: Event): number | null {
    const node = (event.target as Element).closest<HTMLElement>("[data-node]");
    return node ? Number(node.dataset["node"]) : null;
  }

  private pick(event: Event): void {
    this.choose(this.at(event));
  }

  private focusIn(event: Event): void {
    this.focused = this.at(event) ?? this.focused;
  }

  private choose(i: number | null): void {
    if (i !== null && this.nodes[i]!.isFree) this.ask("choose-node", i);
  }

  private press(event: KeyboardEvent): void {
    const direction = ARROWS[event.key];
    if (event.key === "Enter" || event.key === " ") this.choose(this.focused);
    else if (!direction) return;
    else this.querySelector<HTMLElement>(`[data-node="${this.next(direction)}"]`)?.focus();
    event.preventDefault();
  }

  /** The nearest node in a direction. */
  private next({ across, down }: { across: number; down: number }): number {
    const here = this.nodes[this.focused]!;
    const distances = this.nodes.map((node) => {
      const [rows, columns] = [node.row - here.row, node.column - here.column];
      const ahead = rows * down + columns * across;
      return ahead > 0 ? ahead + ASIDE * Math.abs(down === 0 ? rows : columns) : Infinity;
    });
    const least = Math.min(...distances);
    return least === Infinity ? this.focused : distances.indexOf(least);
  }
}

customElements.define("beam-tree", BeamTree);
