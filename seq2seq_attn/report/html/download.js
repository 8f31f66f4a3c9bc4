/* Downloads of a figure as drawn on the page, and of its numbers. */

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "opacity", "fill-opacity", "scale", "font-family", "font-size", "font-weight"];

/** A copy of an <svg> that looks the same without the style sheet. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
    const style = getComputedStyle(originals[place]);
    for (const property of DRAWN) element.style.setProperty(property, style.getPropertyValue(property));
    for (const name of ["class", "tabindex", "data-tip", "data-y", "data-record"]) element.removeAttribute(name);
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  const ground = document.createElementNS(svg.namespaceURI, "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.style.fill = getComputedStyle(document.body).backgroundColor;
  copy.prepend(ground);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return new XMLSerializer().serializeToString(copy);
}

/** The SVG as a PNG at twice its size. */
async function asPng(text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = make("canvas", { width: image.width * 2, height: image.height * 2 });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const asCsv = (rows) =>
  rows.map((row) => row.map((value) => {
    const text = String(value ?? "");
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(",") + "\n").join("");

function save(name, content, type) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The numbers of a chart, one row per mark. */
function chartRows(figure) {
  const rows = [...figure.querySelectorAll(".series")].flatMap((series) =>
    [...series.querySelectorAll(".point")].map((point) => [series.dataset.arm, ...JSON.parse(point.dataset.record)]));
  return [["arm", "group", "value", "low", "high", "sentences"], ...rows];
}

/** The numbers of a table, unrounded where available. */
const tableRows = (table) => [...table.rows].map((row) =>
  [...row.cells].map((cell) => cell.dataset.sort ?? (cell.querySelector("bdi") ?? cell).textContent.trim()));

/** Connects the buttons of a download group; `parts` gives its <svg> and the rows of its CSV file. */
function offerDownloads(group, parts) {
  group.hidden = false;
  group.addEventListener("click", async ({ target }) => {
    const { kind } = target.dataset;
    if (!kind) return;
    const { svg, rows } = parts();
    const name = `${group.dataset.name}.${kind}`;
    if (kind === "csv") save(name, asCsv(rows()), "text/csv");
    else if (kind === "svg") save(name, standalone(svg()), "image/svg+xml");
    else save(name, await asPng(standalone(svg())), "image/png");
  });
}

for (const group of document.querySelectorAll(".chart .downloads")) {
  const figure = group.closest(".chart");
  offerDownloads(group, () => ({ svg: () => figure.querySelector("svg"), rows: () => chartRows(figure) }));
}
for (const group of document.querySelectorAll('.downloads[data-name="results"]')) {
  group.querySelectorAll('[data-kind="svg"], [data-kind="png"]').forEach((button) => button.remove());
  offerDownloads(group, () => ({ rows: () => tableRows(document.querySelector("#results .results")) }));
}
