/** Tables: headings sort by the unrounded numbers; a checkbox shows the hidden columns. */

import type { Table } from "../download.ts";
import { offerDownloads } from "./charts.ts";

/** What a row is sorted by; undefined if the value is not known. */
function keyOf(row: HTMLTableRowElement, column: number): string | number | undefined {
  const { dataset, textContent } = row.cells[column]!;
  if (dataset["sort"] !== undefined) return Number(dataset["sort"]);
  return column === 0 ? (textContent ?? "").trim() : undefined;
}

function sortBy(table: HTMLTableElement, column: number, isFalling: boolean): void {
  const body = table.tBodies[0]!;
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [keyOf(one, column), keyOf(other, column)];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined); // unknown values last
    const order = typeof a === "string" ? a.localeCompare(String(b)) : a - Number(b);
    return isFalling ? -order : order;
  });
  body.append(...rows);
  [...table.tHead!.rows[0]!.cells].forEach((cell, place) => {
    if (place === column) cell.setAttribute("aria-sort", isFalling ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

function startTable(frame: Element): void {
  const table = frame.querySelector("table")!;
  [...table.tHead!.rows[0]!.cells].forEach((cell, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort" });
    button.append(...cell.childNodes);
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const sorted = cell.getAttribute("aria-sort");
      sortBy(table, column, sorted ? sorted === "ascending" : column > 0);
    });
  });
  const controls = frame.querySelector<HTMLElement>(".table-controls");
  if (!controls) return;
  controls.hidden = false;
  frame.classList.add("folded");
  frame.querySelector<HTMLInputElement>(".unfold")!.addEventListener("change", ({ target }) =>
    frame.classList.toggle("folded", !(target as HTMLInputElement).checked));
}

/** The numbers of a table, unrounded where available. */
function rowsOf(table: HTMLTableElement): Table {
  return [...table.rows].map((row) =>
    [...row.cells].map((cell) => cell.dataset["sort"] ?? (cell.querySelector("bdi") ?? cell).textContent?.trim() ?? ""));
}

export function startTables(): void {
  document.querySelectorAll(".tabled").forEach(startTable);
  const group = document.querySelector<HTMLElement>('.downloads[data-name="results"]')!;
  group.querySelectorAll('[data-kind="svg"], [data-kind="png"]').forEach((button) => button.remove());
  offerDownloads(group, null, () => rowsOf(document.querySelector("#results .results")!));
}
