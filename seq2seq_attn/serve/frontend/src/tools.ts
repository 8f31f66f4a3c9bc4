/** The tools of the page: undo and redo, the list of changes, the link, its QR code, present mode, and help on keys. */

import { html, type TemplateResult } from "lit";
import type { Trail } from "./changes.ts";
import { KEYS } from "./keys.ts";
import { Part } from "./part.ts";
import { qrPath } from "./qr.ts";

const ANSWERED = 4000; // milliseconds for which an answer stays beside its button

export class PageTools extends Part {
  static override properties = {
    trail: { attribute: false },
    isPresenting: { type: Boolean },
    answer: { state: true },
    address: { state: true },
  };
  declare trail: Trail;
  declare isPresenting: boolean;
  declare answer: string; // to Copy link
  declare address: string; // that the QR code holds
  private timer = 0;

  constructor() {
    super();
    this.answer = "";
    this.address = location.href;
  }

  protected override render(): TemplateResult {
    const { labels, place } = this.trail;
    return html`<div class="tools" role="group" aria-label="Tools">
        <button type="button" title="Ctrl Z" ?disabled=${place === 0} @click=${() => this.ask("go-to", place - 1)}>Undo</button>
        <button type="button" title="Shift Ctrl Z" ?disabled=${place === labels.length - 1} @click=${() => this.ask("go-to", place + 1)}>Redo</button>
        <button type="button" popovertarget="changes">Changes</button>
        <button type="button" @click=${this.copyLink}>Copy link</button>
        <span class="answer" role="status">${this.answer}</span>
        <button type="button" @click=${this.showCode}>QR code</button>
        <button type="button" class="presents" title="P" @click=${() => this.ask("present", null)}>${this.isPresenting ? "Leave" : "Present"}</button>
        <button type="button" title="?" @click=${() => this.showKeys()}>Keys</button>
      </div>
      <div id="changes" class="changes" popover>
        <h2>Changes <small>choose one to go there</small></h2>
        <ol>${labels.map((label, i) => html`<li><button type="button" aria-current=${i === place ? "step" : "false"}
          class=${i > place ? "undone" : ""} @click=${() => this.ask("go-to", i)}>${label}</button></li>`)}</ol>
      </div>
      <dialog id="keys" aria-labelledby="keys-title"><h2 id="keys-title">Keys</h2>
        <table class="keys"><tbody>${KEYS.map(([keys, meaning]) => html`<tr><th scope="row">${keys}</th><td>${meaning}</td></tr>`)}</tbody></table>
        ${this.closing("keys")}</dialog>
      <dialog id="code" aria-labelledby="code-title"><h2 id="code-title">QR code of this page</h2>
        ${this.code()} ${this.closing("code")}</dialog>`;
  }

  /** Opens the help on keys, or closes it. */
  showKeys(): void {
    const dialog = this.dialog("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }

  private code(): TemplateResult {
    const path = qrPath(this.address);
    if (!path) return html`<p>This link is too long for a QR code: ${this.address.length} characters. Reset changes, or copy the link.</p>`;
    const isOfThisMachine = !/^https?:/.test(this.address) || /^\w+:\/\/(localhost|127\.|\[::1\])/.test(this.address);
    return html`<svg class="qr" viewBox="0 0 ${path.size} ${path.size}" role="img" aria-label="QR code of ${this.address}">
        <path d=${path.d} /></svg>
      <p class="note">${isOfThisMachine ? "This address can be opened on this machine alone." : this.address.split("#")[0]}</p>`;
  }

  private closing(name: "keys" | "code"): TemplateResult {
    return html`<button type="button" @click=${() => this.dialog(name).close()}>Close</button>`;
  }

  private dialog(name: "keys" | "code"): HTMLDialogElement {
    return this.querySelector<HTMLDialogElement>(`#${name}`)!;
  }

  private showCode(): void {
    this.ask("enter", null);
    this.address = location.href;
    this.dialog("code").showModal();
  }

  private async copyLink(): Promise<void> {
    this.ask("enter", null);
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    this.answer = copied ? "Copied" : "Copy it from the address bar";
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => (this.answer = ""), ANSWERED);
  }
}

customElements.define("page-tools", PageTools);
