/** Grids of cells as one path for each level of opacity, so that many cells stay fluid. */

const OPACITIES = 50; // levels above 0

/** A path for each level of opacity above 0, as `shades` of report/html_attention.py makes them. */
export function shades(values: readonly number[], grid: number): [opacity: number, path: string][] {
  const columns = values.length / grid;
  const levels = values.map((value) => Math.round(value * OPACITIES));
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
