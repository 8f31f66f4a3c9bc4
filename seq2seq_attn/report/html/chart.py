"""Lines over axes, as the numbers of an SVG drawing that page.html makes of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LEFT, RIGHT, TOP, BOTTOM = 64, 664, 14, 286  # of the axes, in the units of the drawing
MARGIN = 20  # between the axes and the outer values
TICKS = 5  # at least so many intervals on the vertical axis


class Value(NamedTuple):
    """A point in the units of the data, and what there is to say of it."""

    x: float
    y: float
    text: str
    low: float | None = None  # of an interval around y
    high: float | None = None


class Series(NamedTuple):
    """An arm's line; `style` chooses its colour, marker and dashes."""

    name: str
    style: int
    values: Sequence[Value]
    seeds: Sequence[Sequence[Value]] = ()  # thin lines beneath


class Point(NamedTuple):
    """A value in its place on the drawing."""

    x: float
    y: float
    value: Value


class Line(NamedTuple):
    """A series in its place on the drawing; paths are in the language of SVG."""

    series: Series
    path: str
    points: Sequence[Point]
    band: str  # between the limits of the intervals; "" without them
    seeds: Sequence[str]


class Chart(NamedTuple):
    """All that is drawn."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, Sequence[str]]]  # place, lines of text
    y_ticks: Sequence[tuple[float, str]]
    lines: Sequence[Line]


class Axes(NamedTuple):
    """From the units of the data to those of the drawing; the vertical axis begins at 0."""

    first: float  # at the left
    last: float  # at the right
    top: float

    def across(self, x: float) -> float:
        share = (x - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return round(LEFT + MARGIN + (RIGHT - LEFT - 2 * MARGIN) * share, 2)

    def up(self, y: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * y / self.top, 2)

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{'L' if index else 'M'}{self.across(x)} {self.up(y)}" for index, (x, y) in enumerate(points))

    def line(self, series: Series) -> Line:
        limits = [(value.x, value.low, value.high) for value in series.values]
        there = [(x, high) for x, _, high in limits if high is not None]
        back = [(x, low) for x, low, _ in reversed(limits) if low is not None]
        return Line(
            series,
            self.path((value.x, value.y) for value in series.values),
            [Point(self.across(value.x), self.up(value.y), value) for value in series.values],
            f"{self.path([*there, *back])} Z" if there else "",
            [self.path((value.x, value.y) for value in seed) for seed in series.seeds],
        )


def chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], x_ticks: Sequence[tuple[float, Sequence[str]]]
) -> Chart:
    """The axes hold all values, ticks and intervals."""
    values = [value for each in series for value in (*each.values, *(v for seed in each.seeds for v in seed))]
    ends = [*(x for x, _ in x_ticks), *(value.x for value in values)]
    highest = max((y for value in values for y in (value.y, value.high or 0)), default=0.0) or 1.0
    step = nice_step(highest)
    steps = math.ceil(highest / step - 1e-9)
    axes = Axes(min(ends), max(ends), steps * step)
    return Chart(
        title,
        x_label,
        y_label,
        [(axes.across(x), text) for x, text in x_ticks],
        [(axes.up(index * step), f"{index * step:g}") for index in range(steps + 1)],
        [axes.line(each) for each in series],
    )


def nice_step(top: float) -> float:
    """The largest of 1, 2, 5, 10, 20 and so on that makes at least `TICKS` intervals, or nearly."""
    power: float = 10.0 ** math.floor(math.log10(top / TICKS))
    return max(step for step in (power, 2 * power, 5 * power) if step <= top / TICKS * 1.01)
