/** Places for the labels of points in a square figure: inside it, over no point and over no other label. */

interface Labeled {
  x: number;
  y: number;
  width: number; // of the label
  angle: number; // where the label stands first, in radians: 0 is to the right, π / 2 above
}

interface Spot {
  x: number; // the middle of the label
  y: number; // its middle
}

export const LABEL_HEIGHT = 18;
const POINT = 9; // half the size of a point
const GAPS = [3, 12, 24, 44]; // between a point and its label
const TURNS = [0, 1, -1, 2, -2, 3, -3, 4].map((turn) => (turn * Math.PI) / 4);

interface Box {
  x: number; // the middle
  y: number;
  width: number;
  height: number;
}

export const overlap = (a: Box, b: Box): boolean =>
  2 * Math.abs(a.x - b.x) < a.width + b.width && 2 * Math.abs(a.y - b.y) < a.height + b.height;

/** A place for each label, those of the first points before those of the others; null where none is free. */
export function labelPlaces(points: readonly Labeled[], size: number): (Spot | null)[] {
  const dots: Box[] = points.map(({ x, y }) => ({ x, y, width: 2 * POINT, height: 2 * POINT }));
  const taken: Box[] = [];
  return points.map(({ x, y, width, angle }) => {
    for (const gap of GAPS) {
      for (const turn of TURNS) {
        const [across, up] = [Math.cos(angle + turn), Math.sin(angle + turn)];
        const box = {
          x: x + across * (POINT + gap + width / 2),
          y: y - up * (POINT + gap + LABEL_HEIGHT / 2),
          width,
          height: LABEL_HEIGHT,
        };
        const isInside = box.x >= width / 2 && box.x <= size - width / 2 && box.y >= LABEL_HEIGHT / 2 && box.y <= size - LABEL_HEIGHT / 2;
        if (!isInside || [...dots, ...taken].some((other) => overlap(box, other))) continue;
        taken.push(box);
        return { x: box.x, y: box.y };
      }
    }
    return null;
  });
}
