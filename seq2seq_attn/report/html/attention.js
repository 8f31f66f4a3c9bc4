/* Attention: any sentence of the page, two arms, one row at a time. The URL records the state of the view. */

const END = "</s>";
const held = {}; // the data of `as_data`, and `pairs`, one row per sentence pair
const state = { line: 0, step: 0, pieces: false, panels: [], found: [] };
const number = (value, digits) => value.toFixed(digits).replace(/^-(?!0\.?0*$)/, "\u2212").replace("-", "");
const sum = (values) => values.reduce((total, value) => total + value, 0);
const words = (line) => line.split(/\s+/).filter(Boolean);
const upTo = (count) => Array.from({ length: count }, (_, place) => place);

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

/* A view: one sentence in one arm, as tokens. Examples have scores and beams; other sentences only have weights. */

const levels = {}; // by arm: the weights of all pairs in units of 1/255, decompressed on first use

async function weightsOf(arm, place) {
  const arms = Object.keys(held.arms).filter((name) => held.arms[name].segmentation !== null);
  const script = document.querySelectorAll("script.weights")[arms.indexOf(arm)];
  levels[arm] ??= new Uint8Array(await inflate(script.textContent));
  const sizes = upTo(place + 1).map((pair) => tokensOf(arm, pair)).map(({ source, target }) => source.length * target.length);
  const first = sum(sizes.slice(0, -1));
  const { source, target } = tokensOf(arm, place);
  return target.map((_, row) => [...levels[arm].subarray(first + row * source.length, first + (row + 1) * source.length)].map((level) => level / 255));
}

function tokensOf(arm, place) {
  const own = held.segmentations[held.arms[arm].segmentation];
  if (own) return { source: own.source[place], target: own.target[place], sourceWords: own.sourceWords[place], targetWords: own.targetWords[place] };
  const [source, target] = held.pairs[place].slice(1, 3).map((line) => [...words(line), END]);
  return { source, target, sourceWords: upTo(source.length), targetWords: upTo(target.length) };
}

/** The views of a sentence, in the order of the arms. */
async function viewsOf(place) {
  const line = held.pairs[place][0];
  const examples = held.examples[line];
  if (examples) return examples.map((view, number) => ({ ...view, beam: `beam-${Object.keys(held.examples).indexOf(String(line))}-${number}` }));
  return Promise.all(Object.entries(held.arms).map(async ([arm, { segmentation }]) => {
    if (segmentation === null) return { arm, source: [], sourceWords: [], steps: [], paths: [] };
    const { source, target, sourceWords, targetWords } = tokensOf(arm, place);
    const weights = await weightsOf(arm, place);
    const steps = target.map((token, row) => [token, null, weights[row], null, null]);
    return { arm, source, sourceWords, steps, paths: [{ name: "the reference", steps: upTo(steps.length), words: targetWords, score: null }] };
  }));
}

/** An arm's translation; 0 means that it is the reference. */
const translation = ({ translations }, place) => translations[place] || held.pairs[place][2];

/** Sums the values of the tokens of each word. */
function byWord(values, wordOf) {
  const totals = Array(Math.max(...wordOf) + 1).fill(0);
  values.forEach((value, token) => (totals[wordOf[token]] += value));
  return totals;
}

const joined = (tokens, wordOf) => {
  const texts = Array(Math.max(...wordOf) + 1).fill("");
  tokens.forEach((token, place) => (texts[wordOf[place]] += token.replace(/^\u2581/, "")));
  return texts;
};

const mean = (rows) => rows[0].map((_, column) => sum(rows.map((row) => row[column])) / rows.length);

/** The contents of a panel: source labels, rows {token, p, weights, scores, shares, steps}, gold links; by word or by piece. */
function shownIn({ view, path: chosen }) {
  const path = view.paths[chosen];
  if (!path) return { source: [], rows: [], gold: new Set() };
  const sourceOf = state.pieces ? upTo(view.source.length) : view.sourceWords;
  const targetOf = state.pieces ? upTo(path.steps.length) : path.words;
  const steps = path.steps.map((index) => view.steps[index]);
  const rows = upTo(Math.max(...targetOf) + 1).map((word) => {
    const places = upTo(steps.length).filter((place) => targetOf[place] === word);
    const own = places.map((place) => steps[place]);
    const merge = (field) => {
      const known = own.map((step) => step[field]).filter(Boolean);
      return known.length ? mean(known.map((row) => byWord(row, sourceOf))) : null;
    };
    const isOne = own.length === 1 && own[0]?.[3]?.length === new Set(sourceOf).size; // the scores of pieces cannot be summed
    return {
      steps: places.map((place) => path.steps[place]),
      p: own.some((step) => step[1] === null) ? null : Math.exp(sum(own.map((step) => step[1]))),
      weights: merge(2), scores: isOne ? own[0][3] : null, shares: merge(4),
    };
  });
  const labels = state.pieces ? steps.map(([token]) => token) : joined(steps.map(([token]) => token), targetOf);
  rows.forEach((row, place) => (row.token = labels[place]));
  const links = new Set(chosen === 0 ? (held.pairs[state.place][3] ?? []).map(String) : []);
  const gold = new Set(upTo(view.source.length).flatMap((column) => upTo(steps.length)
    .filter((row) => links.has(`${view.sourceWords[column]},${path.words[row]}`))
    .map((row) => `${sourceOf[column]},${targetOf[row]}`)));
  return { source: state.pieces ? view.source : joined(view.source, sourceOf), rows: rows.filter((row) => row.steps.length), gold };
}

/* Drawing a panel. */

const gloss = (word) => (Object.hasOwn(glosses, word) ? [make("small", { lang: "en" }, glosses[word])] : []);
const label = (word) => [make("bdi", {}, word), ...gloss(word)];

/** A line of text with glosses under its words. */
const glossed = (line) => words(line).flatMap((word) =>
  Object.hasOwn(glosses, word) ? [make("ruby", {}, word, make("rt", { lang: "en" }, glosses[word])), " "] : [`${word} `]);

function choose(name, options, chosen, onchange) {
  const select = make("select", { "aria-label": name });
  options.forEach((text, value) => select.append(make("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => onchange(Number(select.value)));
  return select;
}

function heat(panel, { source, rows, gold }) {
  const head = make("tr", {}, make("td"), ...source.map((word) => make("th", { scope: "col" }, make("span", {}, ...label(word)))));
  const lines = rows.map(({ token, weights }, row) => {
    const cells = (weights ?? []).map((weight, column) =>
      make("td", {
        style: `--w:${Math.min(weight, 1)}`,
        "data-tip": `${token} \u2190 ${source[column]}: ${number(weight, 3)}`,
        ...(gold.has(`${column},${row}`) && { class: "gold" }),
      }));
    const line = make("tr", {}, make("th", { scope: "row" }, ...label(token)), ...cells);
    line.addEventListener("click", () => stepTo(row));
    return line;
  });
  const name = `Attention of ${panel.view.arm}; arrow keys move through the rows`;
  const table = make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...lines));
  const frame = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, table);
  frame.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    stepTo(state.step + steps[event.key]);
  });
  return frame;
}

/** The heat map as an <svg> for download. */
function heatSvg({ source, rows, gold }) {
  const cell = 22, left = 120, top = 110;
  const create = (name, attributes, text = "") => {
    const element = document.createElementNS(document.querySelector("svg").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };
  const size = `0 0 ${left + cell * source.length + 20} ${top + cell * rows.length + 10}`;
  const svg = create("svg", { viewBox: size, class: "heat-svg", fill: "currentColor" });
  source.forEach((word, column) => svg.append(create("text", { transform: `translate(${left + cell * (column + 0.65)} ${top - 6}) rotate(-90)` }, word)));
  rows.forEach(({ token, weights }, row) => {
    svg.append(create("text", { x: left - 6, y: top + cell * (row + 0.7), "text-anchor": "end" }, token));
    (weights ?? []).forEach((weight, column) => {
      const place = { x: left + cell * column, y: top + cell * row, width: cell, height: cell };
      svg.append(create("rect", { ...place, class: "cell", "fill-opacity": weight }));
      if (gold.has(`${column},${row}`)) svg.append(create("rect", { ...place, class: "gold" }));
    });
  });
  byId("viewer").append(svg); // so that styles apply; removed after drawing
  setTimeout(() => svg.remove());
  return svg;
}

function weightsTable(source, { weights, scores, shares }) {
  const top = Math.max(...weights);
  const most = weights.indexOf(top) === weights.lastIndexOf(top) ? weights.indexOf(top) : -1;
  const heads = ["source", ...(scores ? ["score e"] : []), "weight a", ...(shares ? ["share of C"] : [])];
  const bar = (value, isMost) =>
    make("td", { class: isMost ? "bar most" : "bar", style: `--w:${value}` }, number(value, 3));
  const rows = source.map((word, place) =>
    make("tr", {},
      make("th", { scope: "row" }, ...label(word)),
      ...(scores ? [make("td", {}, number(scores[place], 2))] : []),
      bar(weights[place], place === most),
      ...(shares ? [bar(shares[place], false)] : [])));
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  return make("table", { class: "weights" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** Everything in a panel that depends on the sentence, the arm or the translation. */
function draw(panel) {
  const { view } = panel;
  panel.path = view.paths[panel.path] ? panel.path : 0;
  panel.shown = shownIn(panel);
  panel.place.className = `panel s${styles[view.arm] % 7}`;
  const arm = choose("Arm", state.views.map((each) => each.arm), state.views.indexOf(view), (chosen) => {
    Object.assign(panel, { view: state.views[chosen], path: 0 });
    draw(panel);
    remember();
  });
  const names = view.paths.map(({ name, score }) => (score === null ? name : `${name}, score ${number(score, 3)}`));
  const path = names.length > 1 ? [choose("Translation", names, panel.path, (chosen) => {
    panel.path = chosen;
    draw(panel);
  })] : [];
  const own = held.arms[view.arm];
  const translated = own ? [make("p", { class: "text translation", dir: "auto" }, ...glossed(translation(own, state.place)),
    make("small", {}, `${held.metric} ${number(own.scores[state.place], 1)}`))] : [];
  panel.heading = make("h4", { "aria-live": "polite" });
  panel.now = make("div");
  const has = panel.shown.rows.some(({ weights }) => weights);
  const downloads = make("p", { class: "downloads hint", "data-name": `attention_${held.pairs[state.place][0]}`, hidden: "" }, "Download ");
  for (const kind of ["svg", "png", "csv"]) downloads.append(make("button", { type: "button", "data-kind": kind }, kind.toUpperCase()), " ");
  offerDownloads(downloads, () => ({
    svg: () => heatSvg(panel.shown),
    rows: () => [["target", ...panel.shown.source], ...panel.shown.rows.map(({ token, weights }) => [token, ...(weights ?? [])])],
  }));
  const attention = has
    ? [heat(panel, panel.shown), downloads, make("details", { class: "numbers" }, make("summary", {}, panel.heading), panel.now)]
    : [make("p", { class: "hint" }, "This arm does not attend to single source words: there are no weights.")];
  const focused = [...panel.place.querySelectorAll("select")].indexOf(document.activeElement);
  const isOpen = panel.place.querySelector(".numbers")?.open;
  panel.place.replaceChildren(make("div", { class: "choices" }, arm, ...path), ...translated, ...attention);
  if (isOpen && has) panel.place.querySelector(".numbers").open = true;
  panel.place.querySelectorAll("select")[focused]?.focus();
  drawBeam();
  stepTo(state.step);
}

/* The beam of the first panel that has one, at full width; choosing a step selects the best translation through it. */

function drawBeam() {
  const panel = state.panels.find(({ view }) => view.beam && byId(view.beam));
  byId("beam").hidden = !panel;
  if (!panel) return;
  byId("beam-arm").textContent = panel.view.arm;
  const parts = [...byId(panel.view.beam).cloneNode(true).children];
  const tree = parts.at(-1).querySelector(".tree");
  const nodes = [...tree.querySelectorAll('[role="treeitem"]')];
  const area = (node) => node.style.gridArea.split("/").map(Number);
  const pick = (node) => {
    if (!node?.dataset.path) return;
    panel.path = Number(node.dataset.path);
    const step = Number(node.dataset.step);
    panel.shown = shownIn(panel);
    state.step = panel.shown.rows.findIndex(({ steps }) => steps.includes(step));
    const hadFocus = tree.contains(document.activeElement);
    draw(panel);
    if (hadFocus) byId("beam-parts").querySelector(`[data-step="${step}"]`).focus();
  };
  tree.addEventListener("click", ({ target }) => pick(target.closest("[data-path]")));
  tree.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") pick(document.activeElement);
    else if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    else {
      const [row, column] = area(document.activeElement);
      const [sideways, forward] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const distance = (node) => {
        const [r, c] = area(node);
        const ahead = sideways ? (r - row) * sideways : (c - column) * forward;
        return ahead > 0 ? ahead + 3 * Math.abs(sideways ? c - column : r - row) : Infinity;
      };
      const next = nodes.reduce((one, other) => (distance(other) < distance(one) ? other : one));
      if (distance(next) < Infinity) next.focus();
    }
    event.preventDefault();
  });
  tree.addEventListener("focusin", ({ target }) => nodes.forEach((node) => (node.tabIndex = node === target ? 0 : -1)));
  nodes[0].tabIndex = 0;
  state.beam = panel;
  byId("beam-parts").replaceChildren(...parts);
}

function stepTo(step) {
  const most = Math.max(1, ...state.panels.map(({ shown }) => shown?.rows.length ?? 0));
  state.step = Math.max(0, Math.min(step, most - 1));
  Object.assign(byId("step"), { max: most, value: state.step + 1 });
  state.panels.filter((panel) => panel.shown?.rows.length && panel.now).forEach(showStep);
  remember();
}

function showStep(panel) {
  const { rows, source } = panel.shown;
  const step = Math.min(state.step, rows.length - 1);
  const { token, p, weights, steps } = rows[step];
  const probability = p === null ? "" : `, p = ${number(p, 3)}`;
  panel.heading.replaceChildren(make("bdi", {}, token), ` is row ${step + 1} of ${rows.length}${probability}`);
  panel.now.replaceChildren(...(weights ? [weightsTable(source, rows[step])] : []));
  panel.place.querySelectorAll(".heat tbody tr").forEach((row, place) => row.classList.toggle("now", place === step));
  if (panel !== state.beam) return;
  const path = panel.view.paths[panel.path].steps;
  byId("beam-parts").querySelectorAll(".node").forEach((node) => {
    const place = Number(node.dataset.step);
    node.classList.toggle("lit", path.includes(place));
    node.classList.toggle("now", steps.includes(place));
    node.setAttribute("aria-selected", steps.includes(place));
    const frame = node.closest(".scroll");
    if (steps[0] === place) frame.scrollLeft = node.offsetLeft - (frame.clientWidth - node.offsetWidth) / 2;
  });
}

/* Choosing a sentence: search and filters, the list of matches, and the URL. */

const FILTERS = ["search", "shortest", "longest", "scored", "lowest", "highest", "order"];

function find() {
  const [search, shortest, longest, scored, lowest, highest, order] = FILTERS.map((id) => byId(id).value);
  const wanted = words(search.toLowerCase());
  const own = held.arms[scored];
  const within = (value, low, high) => (low === "" || value >= Number(low)) && (high === "" || value <= Number(high));
  state.found = upTo(held.pairs.length).filter((place) => {
    const [, source, reference] = held.pairs[place];
    const texts = [source, reference, ...Object.values(held.arms).map((arm) => translation(arm, place))].join(" ").toLowerCase();
    return wanted.every((word) => texts.includes(word))
      && within(words(source).length, shortest, longest)
      && (!own || within(own.scores[place], lowest, highest));
  });
  if (own && order !== "line") state.found.sort((a, b) => (own.scores[a] - own.scores[b]) * (order === "up" ? 1 : -1));
  byId("count").textContent = `${state.found.length.toLocaleString("en")} of ${held.pairs.length.toLocaleString("en")} sentences.`;
  const options = state.found.map((place) => {
    const [line, source] = held.pairs[place];
    const score = own ? ` \u00b7 ${number(own.scores[place], 1)}` : "";
    return make("option", { value: place }, `${line} \u00b7 ${words(source).length} words${score} \u00b7 ${source}`);
  });
  byId("sentence").replaceChildren(...options);
  byId("sentence").value = state.place;
}

/** Writes the state of the view into the URL. */
function remember() {
  if (state.quiet) return;
  const values = { line: held.pairs[state.place][0], step: state.step + 1, pieces: state.pieces ? 1 : "" };
  state.panels.forEach(({ view }, place) => (values[`arm${place + 1}`] = view.arm));
  for (const id of FILTERS) if (byId(id).value !== byId(id).dataset.initial) values[id] = byId(id).value;
  const filled = Object.entries(values).filter(([, value]) => value !== "");
  history.replaceState(null, "", `#attention?${new URLSearchParams(filled)}`);
}

async function show(place, arms = [], step = 0) {
  state.place = place;
  state.views = await viewsOf(place);
  state.step = step;
  const [, source, reference] = held.pairs[place];
  byId("source").replaceChildren(...glossed(source));
  byId("reference").replaceChildren(...glossed(reference));
  byId("sentence").value = place;
  const attending = state.views.filter(({ steps }) => steps.some(([, , weights]) => weights));
  const wanted = arms.map((arm) => state.views.find((view) => view.arm === arm));
  const first = wanted[0] ?? attending.find(({ arm }) => arm === best) ?? attending[0] ?? state.views[0];
  const second = wanted[1] ?? [...attending, ...state.views].find((view) => view !== first);
  const hasPieces = state.views.some((view) => view.source.length > new Set(view.sourceWords).size
    || view.paths.some((path) => path.steps.length > new Set(path.words).size));
  byId("by-pieces").hidden = byId("merging").hidden = !hasPieces;
  byId("panels").replaceChildren();
  state.panels = [first, second].filter(Boolean).map((view) => ({ view, path: 0, place: make("div", { class: "panel" }) }));
  byId("panels").append(...state.panels.map((panel) => panel.place));
  state.panels.forEach(draw);
}

/** Restores the state in the URL; without one, shows the first example. */
async function restore() {
  const [section, query] = location.hash.slice(1).split("?");
  const values = new URLSearchParams(section === "attention" ? query : "");
  const line = values.get("line") ?? Object.keys(held.examples)[0];
  const place = Math.max(0, held.pairs.findIndex(([each]) => String(each) === line));
  state.quiet = true;
  state.pieces = byId("pieces").checked = values.get("pieces") === "1";
  for (const id of FILTERS) byId(id).value = values.get(id) ?? byId(id).dataset.initial;
  await show(place, [values.get("arm1"), values.get("arm2")].filter(Boolean), Number(values.get("step") ?? 1) - 1);
  find();
  state.quiet = false;
  document.documentElement.dataset.shown = line; // for tests: the sentence is drawn
}

async function start() {
  Object.assign(held, JSON.parse(new TextDecoder().decode(await inflate(byId("packed").textContent))));
  const { lines, sources, references, gold } = held;
  held.pairs = lines.map((line, place) => [line, sources[place], references[place], gold[place]]);
  if (!lines.length) return;
  await Promise.all([...document.fonts].map((face) => face.load())); // text measured earlier would use a fallback font
  document.documentElement.classList.add("scripted");
  byId("viewer").hidden = false;
  const scored = Object.keys(held.arms);
  byId("metric").textContent = held.metric;
  byId("by-score").hidden = !scored.length;
  scored.forEach((arm) => byId("scored").append(make("option", { value: arm }, arm)));
  if (scored.length) byId("scored").value = best;
  for (const id of FILTERS) byId(id).dataset.initial = byId(id).value;
  byId("chooser").addEventListener("submit", (event) => event.preventDefault());
  byId("chooser").addEventListener("input", () => {
    find();
    remember();
  });
  const chosen = () => state.panels.map(({ view }) => view.arm);
  byId("sentence").addEventListener("change", () => show(Number(byId("sentence").value), chosen()));
  byId("step").addEventListener("input", () => stepTo(Number(byId("step").value) - 1));
  byId("back").addEventListener("click", () => stepTo(state.step - 1));
  byId("on").addEventListener("click", () => stepTo(state.step + 1));
  byId("pieces").addEventListener("change", ({ target }) => {
    state.pieces = target.checked;
    state.panels.forEach(draw);
  });
  addEventListener("hashchange", () => location.hash.startsWith("#attention?") && restore());
  await restore();
}
start();
