/** Translations in columns: equal tokens stand below each other, and the rest is marked as different. */

export interface Cell {
  token: string;
  step: number;
  differs: boolean; // from the first row
}

/** For each token of `other`, the place in `first` that it matches, or null: a longest common subsequence. */
function matches(first: readonly string[], other: readonly string[]): (number | null)[] {
  const width = first.length + 1;
  const longest = new Uint16Array(width * (other.length + 1)); // of the suffixes from i and j on
  for (let j = other.length - 1; j >= 0; j--) {
    for (let i = first.length - 1; i >= 0; i--) {
      longest[j * width + i] =
        first[i] === other[j]
          ? longest[(j + 1) * width + i + 1]! + 1
          : Math.max(longest[(j + 1) * width + i]!, longest[j * width + i + 1]!);
    }
  }
  const found: (number | null)[] = [];
  for (let i = 0, j = 0; j < other.length; ) {
    const here = longest[j * width + i]!;
    if (i < first.length && first[i] === other[j]) {
      found.push(i++);
      j++;
    } else if (i < first.length && longest[j * width + i + 1] === here) i++;
    else {
      found.push(null);
      j++;
    }
  }
  return found;
}

/** Rows of cells in the same columns; null where a row has no token. The first row is what the others differ from. */
export function aligned(translations: readonly (readonly string[])[]): (Cell | null)[][] {
  const [first = [], ...others] = translations;
  const found = others.map((other) => matches(first, other));
  // Tokens of a row that match nothing stand below the tokens of the first row that are left over between two matches,
  // and after these in columns of their own.
  const placed = others.map((other, row) => place(other, found[row]!, first.length));
  const extra = Array.from({ length: first.length + 1 }, (_, slot) =>
    Math.max(0, ...placed.map((columns) => columns.extra[slot]!.length)),
  );
  const line = (own: (Cell | null)[], more: (slot: number) => Cell[]): (Cell | null)[] =>
    extra.flatMap((count, slot) => [
      ...Array.from({ length: count }, (_, i) => more(slot)[i] ?? null),
      ...(slot < first.length ? [own[slot] ?? null] : []),
    ]);
  const reference = first.map((token, step) => ({ token, step, differs: false }));
  return [line(reference, () => []), ...placed.map((columns) => line(columns.below, (slot) => columns.extra[slot]!))];
}

interface Columns {
  below: (Cell | null)[]; // below each token of the first row
  extra: Cell[][]; // before each token of the first row, and after the last
}

function place(other: readonly string[], match: readonly (number | null)[], width: number): Columns {
  const below: (Cell | null)[] = Array.from({ length: width }, () => null);
  const extra: Cell[][] = Array.from({ length: width + 1 }, () => []);
  let free = 0; // the first column that is not used yet
  for (let step = 0; step < other.length; step++) {
    const cell = { token: other[step]!, step, differs: match[step] === null };
    const next = match.slice(step).find((each) => each !== null) ?? width;
    if (match[step] !== null) {
      below[next] = cell;
      free = next + 1;
    } else if (free < next) below[free++] = cell;
    else extra[next]!.push(cell);
  }
  return { below, extra };
}
