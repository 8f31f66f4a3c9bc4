"use strict";
// The page is complete without scripts, which add tooltips, sorting, downloads and stepping through attention.

const byId = (id) => document.getElementById(id);
const { best, styles, glosses } = JSON.parse(byId("data").textContent);

/** An element with attributes and children; text is never parsed as HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/* Tooltips, without delay, also by keyboard. */

const tip = byId("tip");

function say(text, place) {
  tip.textContent = text;
  tip.hidden = false;
  const left = place.left + place.width / 2 - tip.offsetWidth / 2;
  const above = place.top - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${above < 4 ? place.bottom + 8 : above}px`;
}

for (const event of ["pointerover", "focusin"]) {
  document.addEventListener(event, ({ target }) => {
    const element = target.closest?.("[data-tip]");
    if (element) say(element.dataset.tip, element.getBoundingClientRect());
    else if (!target.closest?.(".chart > svg")) tip.hidden = true;
  });
}
document.addEventListener("scroll", () => (tip.hidden = true), true);

/* Sections: a link or a URL to a section opens it; printing opens all. */

function openSection() {
  const section = byId(location.hash.slice(1).split("?")[0]);
  section?.closest("details")?.setAttribute("open", "");
  section?.scrollIntoView();
}
addEventListener("hashchange", openSection);
document.querySelectorAll('a[href^="#"]').forEach((link) => link.addEventListener("click", () => setTimeout(openSection)));
if (location.hash) openSection();

for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => document.querySelectorAll("details.in-print").forEach((each) => (each.open = open)));
}

/* Charts: the mark nearest to the pointer shows its tooltip; arrow keys move along a line and between lines. */

const NEAR = 24; // maximum distance in pixels between the pointer and a mark

/** The marks nearest to a position on the screen; several if they overlap. */
function nearest(points, { clientX, clientY }) {
  const away = points.map((point) => {
    const { left, top, width, height } = point.querySelector(".mark").getBoundingClientRect();
    return Math.hypot(left + width / 2 - clientX, top + height / 2 - clientY);
  });
  const least = Math.min(...away);
  return least > NEAR ? [] : points.filter((_, place) => away[place] <= least + 1);
}

for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg");
  const series = [...chart.querySelectorAll(".series")];
  const lines = series.map((each) => [...each.querySelectorAll(".point")]).filter((line) => line.length);
  const points = lines.flat();
  points.forEach((point) => {
    const title = point.querySelector("title");
    point.dataset.text = title.textContent;
    point.setAttribute("aria-label", title.textContent);
    point.setAttribute("role", "img");
    point.setAttribute("tabindex", "-1");
    title.remove();
  });
  const light = (arms) => series.forEach((each) => each.classList.toggle("lit", arms.includes(each.dataset.arm)));
  const armOf = (point) => point.closest(".series").dataset.arm;
  function name(shown) {
    points.forEach((point) => point.classList.toggle("near", shown.includes(point)));
    light(shown.map(armOf));
    if (shown.length) say(shown.map((point) => point.dataset.text).join("\n"), shown[0].querySelector(".mark").getBoundingClientRect());
    else tip.hidden = true;
  }
  for (const event of ["pointermove", "pointerdown"]) svg.addEventListener(event, (at) => name(nearest(points, at)));
  svg.addEventListener("pointerleave", () => name([]));
  svg.addEventListener("focusin", ({ target }) => name(points.includes(target) ? [target] : []));
  svg.addEventListener("focusout", () => name([]));
  chart.addEventListener("keydown", (event) => {
    const [across, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (across === undefined || !lines.length) return;
    event.preventDefault();
    const line = lines.findIndex((each) => each.includes(document.activeElement));
    const next = lines[(Math.max(line, 0) + up + lines.length) % lines.length];
    const place = line < 0 ? 0 : lines[line].indexOf(document.activeElement) + across;
    next[Math.max(0, Math.min(place, next.length - 1))].focus();
  });
  chart.querySelectorAll(".legend li").forEach((entry) => {
    const arm = entry.querySelector("bdi").textContent;
    entry.addEventListener("pointerenter", () => light([arm]));
    entry.addEventListener("pointerleave", () => light([]));
  });
}

/* Tables: headings sort by the unrounded numbers; a checkbox shows the hidden columns. */

function sortBy(table, column, falling) {
  const body = table.tBodies[0];
  const key = (row) => {
    const { dataset, textContent } = row.cells[column];
    return dataset.sort === undefined ? (column === 0 ? textContent.trim() : undefined) : Number(dataset.sort);
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // unknown values last
    return falling ? compare(b, a) : compare(a, b);
  });
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, place) => {
    if (place === column) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

for (const frame of document.querySelectorAll(".tabled")) {
  const table = frame.querySelector("table");
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = make("button", { type: "button", class: "sort" }, ...cell.childNodes);
    cell.replaceChildren(button);
    button.addEventListener("click", () =>
      sortBy(table, column, cell.getAttribute("aria-sort") ? cell.getAttribute("aria-sort") === "ascending" : column > 0));
  });
  const controls = frame.querySelector(".table-controls");
  if (!controls) continue;
  controls.hidden = false;
  frame.classList.add("folded");
  frame.querySelector(".unfold").addEventListener("change", ({ target }) => frame.classList.toggle("folded", !target.checked));
}
