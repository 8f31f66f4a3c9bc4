"use strict";
// The page is complete without this script, which adds tooltips, keyboard navigation and stepping through attention.

const byId = (id) => document.getElementById(id);
const { examples, best } = JSON.parse(byId("data").textContent);

/** An element with attributes and children; text is never read as HTML. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/* Tooltips: the text of a <title>, without delay and by keyboard as well. */

const tip = byId("tip");

function say(element) {
  tip.textContent = element.dataset.tip;
  tip.hidden = false;
  const place = element.getBoundingClientRect();
  const left = place.left + place.width / 2 - tip.offsetWidth / 2;
  const above = place.top - tip.offsetHeight - 6;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${above < 4 ? place.bottom + 6 : above}px`;
}

for (const event of ["pointerover", "focusin"]) {
  document.addEventListener(event, ({ target }) => {
    const element = target.closest?.("[data-tip]");
    if (element) say(element);
    else tip.hidden = true;
  });
}
document.addEventListener("scroll", () => (tip.hidden = true), true);

for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => document.querySelectorAll("details.in-print").forEach((each) => (each.open = open)));
}

/* Charts: left and right along a line, up and down to the next line. */

for (const chart of document.querySelectorAll(".chart")) {
  const lines = [...chart.querySelectorAll(".series")].map((series) => [...series.querySelectorAll(".point")]);
  const points = lines.filter((line) => line.length);
  points.flat().forEach((point) => {
    const title = point.querySelector("title");
    point.dataset.tip = title.textContent;
    point.setAttribute("aria-label", title.textContent);
    point.setAttribute("role", "img");
    point.setAttribute("tabindex", "-1");
    title.remove();
  });
  chart.addEventListener("keydown", (event) => {
    const [across, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (across === undefined || !points.length) return;
    event.preventDefault();
    const line = points.findIndex((each) => each.includes(document.activeElement));
    const next = points[(Math.max(line, 0) + up + points.length) % points.length];
    const place = line < 0 ? 0 : points[line].indexOf(document.activeElement) + across;
    next[Math.max(0, Math.min(place, next.length - 1))].focus();
  });
  const series = [...chart.querySelectorAll(".series")];
  chart.querySelectorAll(".legend li").forEach((entry, index, { length }) => {
    const own = series.filter((_, place) => place % length === index);
    entry.addEventListener("pointerenter", () => own.forEach((each) => each.classList.add("lit")));
    entry.addEventListener("pointerleave", () => own.forEach((each) => each.classList.remove("lit")));
  });
}

/* Attention: one sentence, two arms, one word at a time. */

const state = { example: 0, step: 0, panels: [] };
const number = (value, digits) => value.toFixed(digits).replace(/^-(?!0\.?0*$)/, "\u2212").replace("-", "");
const stepsOf = ({ view, path }) => view.paths[path].steps.map((index) => view.steps[index]);
const styles = Object.fromEntries(
  [...document.querySelectorAll(".forest > div")].map((row) => [row.querySelector("bdi").textContent, row.className]));

/** A panel of an arm: the choices made in it, and the elements that show it. */
function panelOf(view) {
  const place = make("div", { class: "panel" });
  byId("panels").append(place);
  return { view, path: 0, place };
}

function choose(label, options, chosen, onchange) {
  const select = make("select", { "aria-label": label });
  options.forEach((text, value) => select.append(make("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => onchange(Number(select.value)));
  return select;
}

function heat(panel, shown) {
  const { source, gold } = panel.view;
  const isGold = new Set(panel.path === 0 ? gold.map(String) : []);
  const head = make("tr", {}, make("td"), ...source.map((token) => make("th", { scope: "col" }, make("bdi", {}, token))));
  const rows = shown.map(([token, , weights], row) => {
    const cells = (weights ?? []).map((weight, column) =>
      make("td", {
        style: `--w:${weight}`,
        "data-tip": `${token} \u2190 ${source[column]}: ${number(weight, 3)}`,
        ...(isGold.has(`${column},${row}`) && { class: "gold" }),
      }));
    const line = make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, token)), ...cells);
    line.addEventListener("click", () => stepTo(row));
    return line;
  });
  const name = `Attention of ${panel.view.arm}; arrow keys step through the words`;
  const table = make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const frame = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, table);
  frame.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    stepTo(state.step + steps[event.key]);
  });
  return frame;
}

function weightsTable({ source }, [, , weights, scores, shares]) {
  const top = Math.max(...weights);
  const most = weights.indexOf(top) === weights.lastIndexOf(top) ? weights.indexOf(top) : -1;
  const heads = ["source", ...(scores ? ["score e"] : []), "weight a", ...(shares ? ["share of C"] : [])];
  const bar = (value, isMost) =>
    make("td", { class: isMost ? "bar most" : "bar", style: `--w:${value}` }, number(value, 3));
  const rows = source.map((token, place) =>
    make("tr", {},
      make("th", { scope: "row" }, make("bdi", {}, token)),
      ...(scores ? [make("td", {}, number(scores[place], 2))] : []),
      bar(weights[place], place === most),
      ...(shares ? [bar(shares[place], false)] : [])));
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  return make("table", { class: "weights" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** Everything in a panel that depends on the sentence, the arm or the translation. */
function draw(panel) {
  const views = examples[state.example].views;
  const { view } = panel;
  const shown = stepsOf(panel);
  panel.place.className = `panel ${styles[view.arm]}`;
  const arm = choose("Arm", views.map((each) => each.arm), views.indexOf(view), (chosen) => {
    Object.assign(panel, { view: views[chosen], path: 0 });
    draw(panel);
  });
  const names = view.paths.map(({ name, score }) => (score === null ? name : `${name}, score ${number(score, 3)}`));
  const path = choose("Translation", names, panel.path, (chosen) => {
    panel.path = chosen;
    draw(panel);
  });
  panel.heading = make("h4", { "aria-live": "polite" });
  panel.now = make("div");
  const attention = view.steps.some(([, , weights]) => weights)
    ? heat(panel, shown)
    : make("p", { class: "hint" }, "This arm does not attend to single source words: there are no weights.");
  const focused = [...panel.place.querySelectorAll("select")].indexOf(document.activeElement);
  const choices = make("div", { class: "choices" }, arm, path);
  panel.place.replaceChildren(choices, attention, panel.heading, panel.now, ...beam(panel));
  panel.place.querySelectorAll("select")[focused]?.focus();
  stepTo(state.step);
}

/** The tree that is already in the page; clicking a step selects the best translation through it. */
function beam(panel) {
  const held = byId(`beam-${state.example}-${examples[state.example].views.indexOf(panel.view)}`);
  if (!held) return [];
  const parts = [...held.cloneNode(true).children];
  parts.at(-1).addEventListener("click", ({ target }) => {
    const node = target.closest("[data-path]");
    if (!node) return;
    panel.path = Number(node.dataset.path);
    state.step = panel.view.paths[panel.path].steps.indexOf(Number(node.dataset.step));
    draw(panel);
  });
  return [make("h4", {}, "Beam search"), ...parts];
}

function stepTo(step) {
  const most = Math.max(...state.panels.map((panel) => stepsOf(panel).length));
  state.step = Math.max(0, Math.min(step, most - 1));
  Object.assign(byId("step"), { max: most, value: state.step + 1 });
  state.panels.filter((panel) => panel.now).forEach(showStep);
}

function showStep(panel) {
  const shown = stepsOf(panel);
  const step = Math.min(state.step, shown.length - 1);
  const [token, logProbability, weights] = shown[step];
  const probability = logProbability === null ? "" : `, p = ${number(Math.exp(logProbability), 3)}`;
  panel.heading.replaceChildren(make("bdi", {}, token), ` is step ${step + 1} of ${shown.length}${probability}`);
  panel.now.replaceChildren(...(weights ? [weightsTable(panel.view, shown[step])] : []));
  panel.place.querySelectorAll(".heat tbody tr").forEach((row, place) => row.classList.toggle("now", place === step));
  const path = panel.view.paths[panel.path].steps;
  panel.place.querySelectorAll(".node").forEach((node) => {
    const place = path.indexOf(Number(node.dataset.step));
    node.classList.toggle("lit", place >= 0);
    node.classList.toggle("now", place === step);
    const frame = node.closest(".scroll");
    if (place === step) frame.scrollLeft = node.offsetLeft - (frame.clientWidth - node.offsetWidth) / 2;
  });
}

function show(example) {
  state.example = example;
  state.step = 0;
  const { views } = examples[example];
  const attending = views.filter((each) => each.steps.some(([, , weights]) => weights));
  const first = attending.find((each) => each.arm === best) ?? attending[0] ?? views[0];
  const second = [...attending, ...views].find((each) => each !== first);
  byId("panels").replaceChildren();
  state.panels = [first, second].filter(Boolean).map(panelOf);
  state.panels.forEach(draw);
}

if (examples.length) {
  document.documentElement.classList.add("scripted");
  byId("viewer").hidden = false;
  examples.forEach(({ title }, value) => byId("sentence").append(make("option", { value }, title)));
  byId("sentence").addEventListener("change", () => show(Number(byId("sentence").value)));
  byId("step").addEventListener("input", () => stepTo(Number(byId("step").value) - 1));
  byId("back").addEventListener("click", () => stepTo(state.step - 1));
  byId("on").addEventListener("click", () => stepTo(state.step + 1));
  show(0);
}
