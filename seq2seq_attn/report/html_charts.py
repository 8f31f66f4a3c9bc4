"""Charts on the HTML page, as positions on an SVG drawing: lines, or dots in rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seq2seq_attn.report.charts import MOST_LINES, Chart, Series, Value

LEFT, RIGHT, TOP, BOTTOM = 64, 664, 14, 286  # of the axes, in the units of the drawing
MARGIN = 20  # between the axes and the outer values
TICKS = 5  # minimum number of intervals on the vertical axis
ROW = 38  # height of a row of dots, with the arm's name above them
NARROW_ROW = 24  # with the names in a column, if each is a line
NAME = 26  # characters of a line in the column of names, which has two lines at most
CHARACTER = 8.6  # width
GAP = 26  # between panels


class Point(NamedTuple):
    """A value with its position on the drawing; `ends` is the horizontal extent of its interval in a row of dots."""

    x: float
    y: float
    value: Value
    ends: tuple[float, float] | None = None


class Line(NamedTuple):
    """A series with its position on the drawing; paths are SVG path data."""

    series: Series
    points: Sequence[Point]
    path: str = ""
    band: str = ""  # between the limits of the intervals; "" without intervals
    seeds: Sequence[str] = ()


class Panel(NamedTuple):
    """A group of values in rows of dots, with its own axis."""

    heading: Sequence[str]
    left: float
    right: float
    ticks: Sequence[tuple[float, str]]


class Drawing(NamedTuple):
    """A chart with all positions."""

    chart: Chart
    lines: Sequence[Line]
    height: float
    x_ticks: Sequence[tuple[float, Sequence[str]]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()
    panels: Sequence[Panel] = ()  # empty for lines
    divider: float = 0  # position of the vertical line, if the chart has one
    names: Sequence[
        Sequence[str]
    ] = ()  # lines of the names of rows of dots in a column; empty if they are above the dots


def drawing(chart: Chart) -> Drawing:
    """The chart in rows of dots or in lines."""
    return _dots(chart) if chart.as_dots else _lines(chart)


def _lines(chart: Chart) -> Drawing:
    """The axes contain all values, ticks and intervals, and the vertical one contains 0."""
    values = [value for each in chart.series for value in (*each.values, *(v for seed in each.seeds for v in seed))]
    places = [*(x for x, _ in chart.ticks), *(value.x for value in values)]
    first, last = min(places), max(places)
    low, high = chart.lowest, max((y for value in values for y in (value.y, value.high or 0, 0)), default=0.0)
    high = high if high > low else low + 1.0
    step = nice_step(high - low)
    bottom, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)

    def across(x: float) -> float:
        if first == last:
            return (LEFT + RIGHT) / 2
        return _between(LEFT + MARGIN, RIGHT - MARGIN, x - first, last - first)

    def up(y: float) -> float:
        return _between(BOTTOM, TOP, y / step - bottom, top - bottom)

    def path(points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{'L' if index else 'M'}{across(x)} {up(y)}" for index, (x, y) in enumerate(points))

    def band(values: Sequence[Value]) -> str:
        upper = [(value.x, value.high) for value in values if value.high is not None]
        lower = [(value.x, value.low) for value in reversed(values) if value.low is not None]
        return f"{path([*upper, *lower])} Z" if upper else ""

    lines = [
        Line(
            each,
            [Point(across(value.x), up(value.y), value) for value in each.values],
            path((value.x, value.y) for value in each.values),
            band(each.values),
            [path((value.x, value.y) for value in seed) for seed in each.seeds],
        )
        for each in chart.series
    ]
    return Drawing(
        chart,
        lines,
        BOTTOM + 34 + 24 * max((len(text) for _, text in chart.ticks), default=1),
        [(across(x), text) for x, text in chart.ticks],
        [(up(index * step), f"{index * step:g}") for index in range(bottom, top + 1)],
        divider=across(chart.divider[0]) if chart.divider else 0,
    )


def _dots(chart: Chart) -> Drawing:
    """One row per series; one panel per tick, all with the same scale.

    With more than `MOST_LINES` rows, names are in a column on the left: rows of two such charts line up.
    The scale contains 0 unless all values are far above it and differ.
    """
    limits = [y for each in chart.series for v in each.values for y in (v.y, v.low, v.high) if y is not None]
    low, high = min(limits, default=0.0), max(limits, default=0.0)
    if low < high / 2 or high - low < 1e-6 * high or high < 0:
        low, high = min(low, 0.0), max(high, 0.0)
    high = high if high > low else low + 1.0
    step = nice_step(high - low, at_least=4 if len(chart.ticks) == 1 else 2)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    is_long = len(chart.series) > MOST_LINES
    names = [_name(each.name) for each in chart.series] if is_long else []
    beside = CHARACTER * max((len(line) for lines in names for line in lines), default=0)
    row_height = NARROW_ROW if is_long and max(map(len, names)) == 1 else ROW
    top = 8 + 22 * (2 if is_long else max(len(heading) for _, heading in chart.ticks))
    width = (RIGHT - 16 - beside - GAP * (len(chart.ticks) - 1)) / len(chart.ticks)
    lefts = {x: 16 + beside + place * (width + GAP) for place, (x, _) in enumerate(chart.ticks)}

    def across(x: float, y: float) -> float:
        """Where y is in the panel at the tick x."""
        return _between(lefts[x], lefts[x] + width, y / step - first, last - first)

    def point(value: Value, height: float) -> Point:
        ends = None
        if value.low is not None and value.high is not None:
            ends = across(value.x, value.low), across(value.x, value.high)
        return Point(across(value.x, value.y), height, value, ends)

    lines = [
        Line(
            each, [point(value, top + row_height * row + (row_height / 2 if is_long else 28)) for value in each.values]
        )
        for row, each in enumerate(chart.series)
    ]
    panels = [
        Panel(
            heading,
            round(lefts[x], 2),
            round(lefts[x] + width, 2),
            [(across(x, number * step), f"{number * step:g}") for number in range(first, last + 1)],
        )
        for x, heading in chart.ticks
    ]
    return Drawing(chart, lines, top + row_height * len(lines) + 52, panels=panels, names=names)


def _name(name: str) -> list[str]:
    """A name in at most two lines; the tooltips of its dots have all of a longer one."""
    return textwrap.wrap(name, NAME, max_lines=2, placeholder="…")


def _between(left: float, right: float, part: float, whole: float) -> float:
    return round(left + (right - left) * part / whole, 2)


def nice_step(top: float, at_least: int = TICKS) -> float:
    """The largest of ..., 1, 2, 5, 10, 20, ... that gives at least this many intervals, up to rounding."""
    power: float = 10.0 ** math.floor(math.log10(top / at_least))
    return max(step for step in (power, 2 * power, 5 * power) if step <= top / at_least * 1.01)
