/** What the search kept: a tree of the hypotheses, each of whose tokens the translation can go on from. */

import { html, nothing, type TemplateResult } from "lit";
import type { Hypothesis } from "./api.ts";
import "./beam-tree.ts";
import type { TreeNode } from "./beam-tree.ts";
import { END, fixed } from "./format.ts";
import { Part } from "./part.ts";

interface Branch extends TreeNode {
  prefix: string[]; // all tokens up to this one
}

/** The nodes below a prefix. Tokens that several hypotheses begin with stand once; the first branch stays in the row. */
function branches(hypotheses: readonly Hypothesis[], before: readonly string[] = [], parentRow = 1): Branch[] {
  const groups = new Map<string, Hypothesis[]>();
  for (const each of hypotheses) {
    const token = each.tokens[before.length];
    if (token !== undefined) groups.set(token, [...(groups.get(token) ?? []), each]);
  }
  const nodes: Branch[] = [];
  let row = parentRow;
  for (const [token, group] of groups) {
    const prefix = [...before, token];
    const ends = group.filter((each) => each.tokens.length === prefix.length).map(({ score }) => fixed(score, 3));
    const below = branches(group, prefix, row);
    nodes.push({ token, row, column: prefix.length + 1, parentRow, isKept: true, isFree: token !== END, note: "", ends, prefix }, ...below);
    row = Math.max(row, ...below.map((node) => node.row)) + 1;
  }
  return nodes;
}

export class HypothesisTree extends Part {
  static override properties = {
    model: {},
    language: {},
    hypotheses: { attribute: false },
    sampled: { type: Boolean },
  };
  declare model: string;
  declare language: string;
  declare hypotheses: readonly Hypothesis[];
  declare sampled: boolean;

  protected override render(): TemplateResult | typeof nothing {
    if (this.hypotheses.length === 0) return nothing;
    const kind = this.sampled ? "samples" : "hypotheses of the beam, the best first";
    const nodes = branches(this.hypotheses);
    return html`<details open class="beam"><summary>${this.hypotheses.length} ${kind}
        <small>choose a token to go on from it</small></summary>
      <beam-tree name="Hypotheses" .language=${this.language} .nodes=${nodes}
        @choose-node=${({ detail }: CustomEvent<number>) =>
          this.ask("go-on", { model: this.model, prefix: nodes[detail]!.prefix })}></beam-tree></details>`;
  }
}

customElements.define("hypothesis-tree", HypothesisTree);
