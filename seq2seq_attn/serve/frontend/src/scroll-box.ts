/** A box whose content may be wider: its edges fade where there is more, so that nothing is cut without a sign. */

export class ScrollBox extends HTMLElement {
  private readonly sizes = new ResizeObserver(() => this.mark());

  connectedCallback(): void {
    this.addEventListener("scroll", this.mark, { passive: true });
    for (const each of [this, ...this.children]) this.sizes.observe(each);
  }

  disconnectedCallback(): void {
    this.removeEventListener("scroll", this.mark);
    this.sizes.disconnect();
  }

  private readonly mark = (): void => {
    this.toggleAttribute("more-before", this.scrollLeft > 1);
    this.toggleAttribute("more-after", this.scrollWidth - this.clientWidth - this.scrollLeft > 1);
  };
}

customElements.define("scroll-box", ScrollBox);
