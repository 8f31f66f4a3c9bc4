/** A bar for a share of 1. It is a drawing, since the page's security policy allows no inline styles. */

import { html, type TemplateResult } from "lit";

export function meter(share: number, kind = ""): TemplateResult {
  return html`<svg class="meter ${kind}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect width=${Math.min(100, Math.max(0.4, 100 * share))} height="10" /></svg>`;
}
