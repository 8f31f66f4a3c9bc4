/** The width of an element, which its figure fills: the element is drawn again when the width changes. */

import type { ReactiveController, ReactiveControllerHost } from "lit";

export class Room implements ReactiveController {
  width: number;
  private readonly sizes: ResizeObserver;

  /** The element has to be a block; `initial` holds until it is on the page. */
  constructor(private readonly host: ReactiveControllerHost & Element, initial: number) {
    this.width = initial;
    this.sizes = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === 0 || width === this.width) return; // hidden, or as wide as before
      this.width = width;
      host.requestUpdate();
    });
    host.addController(this);
  }

  hostConnected(): void {
    this.sizes.observe(this.host);
  }

  hostDisconnected(): void {
    this.sizes.disconnect();
  }
}
