/** Downloads: a figure as SVG or PNG, as drawn on the page, and numbers as CSV or JSON. */

import { html, nothing, type TemplateResult } from "lit";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "paint-order", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];
const OF_THE_PAGE = /^(class|tabindex|role|aria-.*|data-.*)$/; // attributes that mean nothing outside of it

type Figure = SVGSVGElement | null;
export type Table = readonly (readonly (string | number)[])[];

/** A copy of an <svg> that looks the same without the style sheet. */
function standalone(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.querySelector(".rows")?.removeAttribute("transform"); // by which a scrolled map keeps its labels in view
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  copies.forEach((element, i) => {
    const style = getComputedStyle(originals[i]!);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    if (style.scale !== "none") element.style.scale = style.scale; // which is no attribute
    for (const name of element.getAttributeNames()) if (OF_THE_PAGE.test(name)) element.removeAttribute(name);
  });
  const ground = document.createElementNS(svg.namespaceURI, "rect") as SVGRectElement;
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  return new XMLSerializer().serializeToString(copy);
}

/** The SVG as a PNG at twice its size. */
async function png(svg: SVGSVGElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the figure is too large for a PNG"))));
  });
}

function csv(rows: Table): string {
  const quoted = (value: string | number): string => {
    const text = String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

/** Saves a file, whose name has no character that a file system or a shell could mistake. */
function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.download = name.replace(/[^\p{L}\p{N}._-]+/gu, "-");
  link.href = URL.createObjectURL(content);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Saves the figure (kind svg or png) or its numbers (csv) as NAME.KIND. */
export async function download(name: string, kind: string, figure: Figure, rows: Table = []): Promise<void> {
  if (kind === "csv") save(`${name}.csv`, new Blob([csv(rows)], { type: "text/csv" }));
  else if (figure && kind === "svg") save(`${name}.svg`, new Blob([standalone(figure)], { type: "image/svg+xml" }));
  else if (figure && kind === "png") save(`${name}.png`, await png(figure));
}

/** Buttons that save a figure, which `find` gives when one of them is pressed, and its numbers, as far as there are both. */
export function figureButtons(name: string, find: (() => Figure) | null, rows?: () => Table): TemplateResult {
  const button = (kind: string): TemplateResult => html`<button type="button" data-kind=${kind}
    @click=${() => void download(name, kind, find?.() ?? null, rows?.())}>${kind.toUpperCase()}</button>`;
  return html`<span class="downloads" role="group" data-name=${name} aria-label="Download ${name}">
    ${find ? html`${button("svg")} ${button("png")}` : nothing} ${rows ? button("csv") : nothing}</span>`;
}

export function saveJson(name: string, values: unknown): void {
  save(`${name}.json`, new Blob([JSON.stringify(values, null, 1)], { type: "application/json" }));
}
