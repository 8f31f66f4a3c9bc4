/** The base of the page's elements, and the events by which they ask for changes. */

import { LitElement } from "lit";
import type { Intervention } from "./api.ts";
import type { Filters } from "./report/address.ts";
import type { State } from "./state.ts";

/** What the elements ask of the page, or of the element around them: the names of the events and what they carry. */
export interface Asks {
  "change-state": Partial<State>;
  "change-sentence": string;
  "focus-step": { model: string; step: number };
  "set-row": { model: string; step: number; weights: number[] };
  "choose-node": number; // its place in the nodes of a tree
  "go-on": { model: string; prefix: string[] };
  "set-tokens": { model: string; tokens: string[] };
  "set-temperature": number; // of the normalizers of all shown models
  "set-normalizer": string; // of all shown models; empty: their own
  again: null; // what failed
  enter: null; // the last change into the history, so that the address is that of the page
  "go-to": number; // a place in the history of changes
  present: null; // in large type, or no more
  intervene: { model: string; step: number | null; replace: Intervention["replace"]; other?: string };
  reset: { model: string; step: number | null }; // null: everything
  "move-vector": { place: number; vector: number[] }; // of the walk: a key, or -1 for the query
  "change-filters": Filters; // of a report, as what follows
  "choose-sentence": number;
  "choose-arm": number; // its place in all arms
  "choose-path": number; // its place in the translations of an arm
}

const EDGE = 60; // pixels at the sides of a box in which its content fades, with half of a token

/** Scrolls sideways until a place is in view, which the first `covered` pixels are not. */
export function reveal(scroller: Element, x: number, covered = 0): void {
  const { scrollLeft, clientWidth } = scroller;
  const isInView = x > scrollLeft + covered + EDGE && x < scrollLeft + clientWidth - EDGE;
  if (!isInView) scroller.scrollLeft = x - (clientWidth + covered) / 2;
}

/** Where a pointer is in a drawing, which may be shown larger or smaller than its own units are. */
export function pointIn(svg: SVGSVGElement, { clientX, clientY }: PointerEvent, box: DOMRect = svg.getBoundingClientRect()): [x: number, y: number] {
  const scale = svg.viewBox.baseVal.width / box.width;
  return [(clientX - box.left) * scale, (clientY - box.top) * scale];
}

/** An element without a shadow root: one style sheet, labels and ids hold for the whole page. */
export abstract class Part extends LitElement {
  protected override createRenderRoot(): this {
    return this;
  }

  protected ask<Name extends keyof Asks>(name: Name, detail: Asks[Name]): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }
}
