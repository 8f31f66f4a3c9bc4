/** Grids of cells as one path for each level of opacity, so that 200 x 200 cells stay fluid. */

import { svg, type TemplateResult } from "lit";

const OPACITIES = 100; // levels above 0

/** A path for each level of opacity above 0, in which a cell is a square of one unit. */
export function shades(values: readonly number[], grid: number): [opacity: number, path: string][] {
  const columns = values.length / grid;
  const levels = values.map((value) => Math.round(Math.min(1, value) * OPACITIES));
  const paths = new Map<number, string>();
  for (let start = 0, end = 0; start < levels.length; start = end) {
    const level = levels[start]!;
    end = start + 1;
    while (end % columns !== 0 && levels[end] === level) end += 1;
    const cells = `M${start % columns} ${Math.floor(start / columns)}h${end - start}v1h${start - end}z`;
    paths.set(level, (paths.get(level) ?? "") + cells);
  }
  return [...paths].filter(([level]) => level > 0).map(([level, path]) => [level / OPACITIES, path]);
}

/** The paths of a grid whose rows follow each other in `values`; a style sheet gives the color of the class. */
export const cells = (values: readonly number[], grid: number, name = "cell"): TemplateResult[] =>
  shades(values, grid).map(([opacity, path]) => svg`<path class=${name} fill-opacity=${opacity} d=${path} />`);
