/** Downloads: a figure as SVG or PNG, as drawn on the page, and numbers as JSON. */

import { html, type TemplateResult } from "lit";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor"];

/** A copy of an <svg> that looks the same without the style sheet. */
export function standalone(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.querySelector(".rows")?.removeAttribute("transform"); // by which a scrolled map keeps its labels in view
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  copies.forEach((element, i) => {
    const style = getComputedStyle(originals[i]!);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-label"]) element.removeAttribute(name);
  });
  const ground = document.createElementNS(svg.namespaceURI, "rect") as SVGRectElement;
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
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

function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(content);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Buttons that save a figure; `find` gives it when one of them is pressed. */
export function figureButtons(name: string, find: () => SVGSVGElement | null): TemplateResult {
  const asSvg = (): void => {
    const svg = find();
    if (svg) save(`${name}.svg`, new Blob([standalone(svg)], { type: "image/svg+xml" }));
  };
  const asPng = async (): Promise<void> => {
    const svg = find();
    if (svg) save(`${name}.png`, await png(svg));
  };
  return html`<span class="downloads" role="group" aria-label="Download ${name}">
    <button type="button" @click=${asSvg}>SVG</button> <button type="button" @click=${asPng}>PNG</button></span>`;
}

export function saveJson(name: string, values: unknown): void {
  save(`${name}.json`, new Blob([JSON.stringify(values, null, 1)], { type: "application/json" }));
}
