/** A QR code as the path of an <svg>: dark squares of one unit, in a frame of four. */

import { encode } from "uqr";

/** The path, and the side of the square around it; null if the text is longer than a code holds. */
export function qrPath(text: string): { d: string; size: number } | null {
  let code: ReturnType<typeof encode>;
  try {
    code = encode(text, { ecc: "L", border: 4 });
  } catch {
    return null;
  }
  const d = code.data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ""))).join("");
  return { d, size: code.size };
}
