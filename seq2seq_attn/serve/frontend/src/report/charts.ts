/** Charts: the mark nearest to the pointer shows its tooltip; arrow keys move along a line and between lines. */

import { download, type Table } from "../download.ts";
import { ARROWS } from "../keys.ts";
import { hideTip, showTip } from "./page.ts";

const NEAR = 24; // maximum distance in pixels between the pointer and a mark

type Point = SVGGElement;

const markOf = (point: Point): DOMRect => point.querySelector(".mark")!.getBoundingClientRect();
const armOf = (point: Point): string => point.closest<SVGGElement>(".series")!.dataset["arm"]!;

/** The marks nearest to a position on the screen; several if they overlap. */
function nearest(points: readonly Point[], { clientX, clientY }: PointerEvent): Point[] {
  const away = points.map((point) => {
    const { left, top, width, height } = markOf(point);
    return Math.hypot(left + width / 2 - clientX, top + height / 2 - clientY);
  });
  const least = Math.min(...away);
  return least > NEAR ? [] : points.filter((_, place) => away[place]! <= least + 1);
}

/** The title of a mark becomes its name and its tooltip. */
function prepare(point: Point): void {
  const title = point.querySelector("title")!;
  const text = title.textContent ?? "";
  point.dataset["text"] = text;
  for (const [name, value] of [["aria-label", text], ["role", "img"], ["tabindex", "-1"]] as const) point.setAttribute(name, value);
  title.remove();
}

/** The numbers of a chart, one row per mark. */
function rowsOf(chart: Element): Table {
  const points = [...chart.querySelectorAll<Point>(".series .point")];
  const record = (point: Point): (string | number | null)[] => JSON.parse(point.dataset["record"]!) as (string | number | null)[];
  const rows = points.map((point) => [armOf(point), ...record(point).map((value) => value ?? "")]);
  return [["arm", "group", "value", "low", "high", "sentences"], ...rows];
}

/** Connects the buttons of a group of downloads. */
export function offerDownloads(group: HTMLElement, svg: SVGSVGElement | null, rows: () => Table): void {
  group.hidden = false;
  group.addEventListener("click", ({ target }) => {
    const kind = (target as HTMLElement).dataset["kind"];
    if (kind) void download(group.dataset["name"]!, kind, svg, rows());
  });
}

function startChart(chart: Element): void {
  const svg = chart.querySelector("svg")!;
  const series = [...chart.querySelectorAll<SVGGElement>(".series")];
  const lines = series.map((each) => [...each.querySelectorAll<Point>(".point")]).filter((line) => line.length > 0);
  const points = lines.flat();
  points.forEach(prepare);
  const light = (arms: readonly string[]): void =>
    series.forEach((each) => each.classList.toggle("lit", arms.includes(each.dataset["arm"]!)));
  const show = (shown: readonly Point[]): void => {
    points.forEach((point) => point.classList.toggle("near", shown.includes(point)));
    light(shown.map(armOf));
    if (shown[0]) showTip(shown.map((point) => point.dataset["text"]).join("\n"), markOf(shown[0]));
    else hideTip();
  };
  const atPointer = (event: PointerEvent): void => show(nearest(points, event));
  svg.addEventListener("pointermove", atPointer);
  svg.addEventListener("pointerdown", atPointer);
  svg.addEventListener("pointerleave", () => show([]));
  svg.addEventListener("focusin", ({ target }) => show(points.filter((point) => point === target)));
  svg.addEventListener("focusout", () => show([]));
  svg.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move || lines.length === 0) return;
    event.preventDefault();
    const focused = document.activeElement;
    const line = lines.findIndex((each) => each.some((point) => point === focused));
    const next = lines[(Math.max(line, 0) + move.down + lines.length) % lines.length]!;
    const place = line < 0 ? 0 : lines[line]!.findIndex((point) => point === focused) + move.across;
    next[Math.max(0, Math.min(place, next.length - 1))]!.focus();
  });
  for (const entry of chart.querySelectorAll(".legend li")) {
    const arm = entry.querySelector("bdi")!.textContent ?? "";
    entry.addEventListener("pointerenter", () => light([arm]));
    entry.addEventListener("pointerleave", () => light([]));
  }
  const group = chart.querySelector<HTMLElement>(".downloads");
  if (group) offerDownloads(group, svg, () => rowsOf(chart));
}

export function startCharts(): void {
  document.querySelectorAll(".chart").forEach(startChart);
}
