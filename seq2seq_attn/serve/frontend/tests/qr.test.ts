/** The path has the squares of the code, in a light frame, and a text that is too long has none. */

import { expect, test } from "vitest";
import { qrPath } from "../src/qr.ts";

test("a code has its three finder patterns in a frame of four, and nothing else in the frame", () => {
  const { d, size } = qrPath("https://example.org/#translate?source=a+b")!;
  const dark = new Set([...d.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x} ${y}`));
  const isFinder = (left: number, top: number): boolean =>
    [0, 1, 2, 3, 4, 5, 6].every((x) => [0, 1, 2, 3, 4, 5, 6].every((y) => {
      const ring = Math.max(Math.abs(x - 3), Math.abs(y - 3));
      return dark.has(`${left + x} ${top + y}`) === (ring !== 2);
    }));
  expect([isFinder(4, 4), isFinder(size - 11, 4), isFinder(4, size - 11), isFinder(size - 11, size - 11)]).toEqual([true, true, true, false]);
  const inFrame = [...dark].filter((square) => square.split(" ").some((each) => Number(each) < 4 || Number(each) >= size - 4));
  expect(inFrame).toEqual([]);
});

test("other texts have other codes, and a text of 3,000 letters has none", () => {
  expect(qrPath("a")!.d).not.toBe(qrPath("b")!.d);
  expect(qrPath("a".repeat(3000))).toBe(null);
});
