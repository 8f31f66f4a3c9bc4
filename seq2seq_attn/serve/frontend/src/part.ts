/** The base of the page's elements, and the events by which they ask for changes. */

import { LitElement } from "lit";
import type { Intervention } from "./api.ts";
import type { State } from "./state.ts";

/** What the elements ask of the page: the names of the events and what they carry. */
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
}

/** Scrolls sideways until a place is in view. */
export function reveal(scroller: Element, x: number): void {
  const isInView = x > scroller.scrollLeft + 20 && x < scroller.scrollLeft + scroller.clientWidth - 20;
  if (!isInView) scroller.scrollLeft = x - scroller.clientWidth / 2;
}

/** The place of the largest number. */
export const largest = (numbers: readonly number[]): number => numbers.indexOf(Math.max(...numbers));

/** An element without a shadow root: one style sheet, labels and ids hold for the whole page. */
export abstract class Part extends LitElement {
  protected override createRenderRoot(): this {
    return this;
  }

  protected ask<Name extends keyof Asks>(name: Name, detail: Asks[Name]): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
  }
}
