/** The sentences in a field, one on each line, of which one at a time is read. */

export const wordsIn = (line: string): string[] => line.split(/\s+/).filter(Boolean);

/** A line without white space at its ends, and with single blanks in it. */
export const plain = (line: string): string => wordsIn(line).join(" ");

/** The lines of a text that are not blank. */
export const linesOf = (text: string): string[] => text.split(/[\n\r\u2028\u2029]+/).map(plain).filter(Boolean);

/**
 * The line of a text that is read: the one with the caret while it is typed; of pasted lines, where `caret` is null, the
 * one that was read before, or the first.
 */
export function lineToRead(text: string, caret: number | null, before: string): string {
  const lines = linesOf(text);
  if (caret !== null) {
    const start = text.lastIndexOf("\n", caret - 1) + 1;
    const line = plain(text.slice(start).split("\n", 1)[0]!);
    if (line) return line;
  }
  return lines.includes(before) ? before : (lines[0] ?? "");
}
