/** Widths of tokens in the page's font, for figures that place them. */

const context = document.createElement("canvas").getContext("2d")!;
const known = new Map<string, number>();
const FONT_SIZE = 13;

/** The width of a token in pixels. */
export function textWidth(token: string): number {
  const found = known.get(token);
  if (found !== undefined) return found;
  context.font = `${FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  const width = context.measureText(token).width;
  known.set(token, width);
  return width;
}

export const widest = (tokens: readonly string[]): number => Math.ceil(Math.max(0, ...tokens.map(textWidth)));

/** The widths of tokens that stand beside each other, each with its gloss below it. */
export const tokenWidths = (tokens: readonly string[], glosses: ReadonlyMap<string, string>): number[] =>
  tokens.map((token) => Math.max(16, 1.15 * textWidth(token), textWidth(glosses.get(token) ?? "")));

/** Widths measured before the fonts were there are forgotten. */
export const forgetWidths = (): void => known.clear();
