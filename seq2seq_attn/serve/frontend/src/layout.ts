/** Where the parts of figures stand, given the room that they have. */

import { sum } from "./numbers.ts";

/** The size of each of `count` equal parts that fill a room, between a least size, at which they scroll, and a largest. */
export const partSize = (room: number, count: number, least: number, most: number): number =>
  Math.min(most, Math.max(least, Math.floor(room / Math.max(1, count))));

export const LONG = 16; // tokens; figures of more stand below each other
const GAP = 14; // pixels between tokens at least

/** The width of a figure with tokens of these widths on its sides: the room, or what the longer side needs. */
export const widthOfSides = (sides: readonly (readonly number[])[], room: number): number =>
  Math.max(room, ...sides.map((side) => sum(side) + GAP * side.length));

/** Where tokens of these widths have their centers, evenly spread over a width. */
export function centers(widths: readonly number[], size: number): number[] {
  const gap = (size - sum(widths)) / Math.max(1, widths.length);
  let end = 0;
  return widths.map((own) => {
    end += own + gap;
    return end - (own + gap) / 2;
  });
}

/** The place of the nearest of some centers. */
export function nearest(centers: readonly number[], x: number): number {
  const distances = centers.map((each) => Math.abs(each - x));
  return distances.indexOf(Math.min(...distances));
}
