/** Labels of the points of a plane: legible wherever the points are dragged to. */

import { describe, expect, test } from "vitest";
import { LABEL_HEIGHT, labelPlaces, overlap } from "../src/labels.ts";

const SIZE = 380;
const point = (x: number, y: number, width = 50) => ({ x, y, width, angle: Math.atan2(SIZE / 2 - y, x - SIZE / 2) });

describe.each([
  ["apart", [point(100, 100), point(300, 80), point(200, 330)]],
  ["in the corners", [point(10, 10), point(370, 10), point(10, 370), point(370, 370)]],
  ["at one place", [point(190, 190), point(190, 190), point(190, 190), point(191, 189), point(190, 192)]],
])("labels of points %s", (_, points) => {
  const boxes = labelPlaces(points, SIZE).map((spot, i) => ({ ...spot!, width: points[i]!.width, height: LABEL_HEIGHT }));
  test("are all there", () => expect(labelPlaces(points, SIZE)).not.toContain(null));
  test("are inside the figure", () => {
    for (const { x, y, width } of boxes) {
      expect(Math.min(x - width / 2, y - LABEL_HEIGHT / 2)).toBeGreaterThanOrEqual(0);
      expect(Math.max(x + width / 2, y + LABEL_HEIGHT / 2)).toBeLessThanOrEqual(SIZE);
    }
  });
  test("cover neither each other nor a point", () => {
    boxes.forEach((box, i) => {
      for (const other of boxes.slice(i + 1)) expect(overlap(box, other)).toBe(false);
      for (const { x, y } of points) expect(overlap(box, { x, y, width: 16, height: 16 })).toBe(false);
    });
  });
});

test("a label without a place is left out, and the first points come first", () => {
  const found = labelPlaces(Array.from({ length: 200 }, () => point(190, 190)), SIZE);
  expect(found[0]).not.toBeNull();
  expect(found.at(-1)).toBeNull();
});

test("a label stands first where its angle says", () => {
  const [right] = labelPlaces([{ x: 190, y: 190, width: 40, angle: 0 }], SIZE);
  expect(right!.x).toBeGreaterThan(190);
  expect(right!.y).toBeCloseTo(190);
});
