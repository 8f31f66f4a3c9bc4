/** Numbers and names as text. */

/** A probability or weight: three digits, and no zero for what is not zero. */
export function share(value: number): string {
  if (value > 0 && value < 0.0005) return "< .001";
  return value.toFixed(3);
}

/** A number with this number of decimals, a minus sign, and no sign at what is rounded to zero. */
export const fixed = (value: number, decimals: number): string =>
  value.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−");

/** A number of any size with a few digits. */
export function few(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001 || size >= 1e5) return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
  return value.toFixed(size < 10 ? 3 : size < 1000 ? 2 : 0).replace("-", "−");
}

export const percent = (share: number): string => `${Math.round(100 * share)} %`;

/** The beginning of a text that has more characters than `most`. */
export const shortened = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 2)} …`);

export const END = "</s>";
export const UNKNOWN = "<unk>";

/** The token that is read where a label says so: `<unk>` for `WORD (<unk>)`. */
export const asRead = (label: string): string => (label.endsWith(` (${UNKNOWN})`) ? UNKNOWN : label);

/** A token as it is read aloud: the end of a sentence has a name. */
export const spoken = (token: string): string => (token === END ? `${END}, end of sentence` : token);

/** Names without the last parts of their paths that all of them share, as /seed-1. */
export function shortNames(names: readonly string[]): Map<string, string> {
  const parts = names.map((name) => name.split("/"));
  let shared = 0;
  const last = (each: string[]): string | undefined => each.at(-1 - shared);
  while (parts.length > 1 && parts.every((each) => each.length > shared + 1 && last(each) === last(parts[0]!))) {
    shared += 1;
  }
  return new Map(names.map((name, i) => [name, parts[i]!.slice(0, parts[i]!.length - shared).join("/")]));
}
