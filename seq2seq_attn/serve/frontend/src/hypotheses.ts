/** What the search kept: a tree of the hypotheses, each of whose tokens the translation can go on from. */

import { html, nothing, type TemplateResult } from "lit";
import type { Hypothesis } from "./api.ts";
import { END, spoken } from "./format.ts";
import { Part } from "./part.ts";

/** Tokens that several hypotheses begin with stand once. */
interface Node {
  tokens: string[]; // without a branch between them
  before: string[]; // all tokens that lead here
  children: Node[];
  ends: Hypothesis[]; // that end here
}

function tree(hypotheses: readonly Hypothesis[], before: string[]): Node[] {
  const groups = new Map<string, Hypothesis[]>();
  for (const each of hypotheses) {
    const token = each.tokens[before.length];
    if (token !== undefined) groups.set(token, [...(groups.get(token) ?? []), each]);
  }
  return [...groups.values()].map((group) => {
    const [first] = group;
    let end = before.length + 1;
    const token = (each: Hypothesis): string | undefined => each.tokens[end];
    while (token(first!) !== undefined && group.every((each) => token(each) === token(first!))) end += 1;
    const here = first!.tokens.slice(0, end);
    return {
      tokens: here.slice(before.length),
      before,
      children: tree(group, here),
      ends: group.filter((each) => each.tokens.length === end),
    };
  });
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
    return html`<details open class="tree"><summary>${this.hypotheses.length} ${kind}
        <small>choose a token to go on from it</small></summary>
      ${this.branch(tree(this.hypotheses, []))}</details>`;
  }

  private branch(nodes: readonly Node[]): TemplateResult {
    return html`<ul>${nodes.map((node) => html`<li>
      <span class="run">${node.tokens.map((token, i) => this.token(token, [...node.before, ...node.tokens.slice(0, i + 1)]))}
        ${node.ends.map((end) => html`<small class="score">${end.score.toFixed(3).replace("-", "−")}</small>`)}</span>
      ${node.children.length > 0 ? this.branch(node.children) : nothing}
    </li>`)}</ul>`;
  }

  private token(token: string, path: string[]): TemplateResult {
    if (token === END) return html`<span class="end">${token}</span>`;
    return html`<button type="button" class="token" lang=${this.language} aria-label="Go on from ${spoken(token)}"
      @click=${() => this.ask("go-on", { model: this.model, prefix: path })}>${token}</button>`;
  }
}

customElements.define("hypothesis-tree", HypothesisTree);
