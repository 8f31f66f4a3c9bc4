/** Widths of tokens in the page's font, for figures that place them. */

const context = document.createElement("canvas").getContext("2d");
const known = new Map<string, number>();
export const FONT_SIZE = 13;

/** The width of a token in pixels. */
export function textWidth(token: string): number {
  const found = known.get(token);
  if (found !== undefined) return found;
  if (context) context.font = `${FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  const width = context?.measureText(token).width ?? token.length * FONT_SIZE * 0.6;
  known.set(token, width);
  return width;
}

export const widest = (tokens: readonly string[]): number => Math.ceil(Math.max(0, ...tokens.map(textWidth)));

/** Widths measured before the fonts were there are forgotten. */
export const forgetWidths = (): void => known.clear();
