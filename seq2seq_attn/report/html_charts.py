"""The charts of the HTML page, as positions on an SVG drawing: lines for a few arms, dots in rows for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from seq2seq_attn.report.figures import (
    LONGER,
    MOST_LINES,
    Points,
    first_longer,
    loss_points,
    mean_over_seeds,
    score_points,
)
from seq2seq_attn.report.table import interval, shown_in_groups, size
from seq2seq_attn.results.breakdowns import Breakdown
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.results import Results

LEFT, RIGHT, TOP, BOTTOM = 64, 664, 14, 286  # of the axes, in the units of the drawing
MARGIN = 20  # between the axes and the outer values
TICKS = 5  # minimum number of intervals on the vertical axis


class Value(NamedTuple):
    """A point in the units of the data, with its tooltip."""

    x: float
    y: float
    text: str
    label: str  # of x
    low: float | None = None  # of an interval around y
    high: float | None = None
    sentences: int | None = None
    few: bool = False  # too few sentences to draw conclusions from; its mark is hollow

    @property
    def record(self) -> tuple[str | float | None, ...]:
        """The fields of its row in a downloaded file, after the name of the arm."""
        return (self.label, self.y, self.low, self.high, self.sentences)


class Series(NamedTuple):
    """An arm's values; `style` chooses its color, marker and dashes."""

    name: str
    style: int
    values: Sequence[Value]
    seeds: Sequence[Sequence[Value]] = ()  # thin lines beneath


class Point(NamedTuple):
    """A value with its position on the drawing; `ends` is the horizontal extent of its interval in a dot plot."""

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
    """A group of values in a dot plot, with its own axis."""

    heading: Sequence[str]
    left: float
    right: float
    ticks: Sequence[tuple[float, str]]


class Chart(NamedTuple):
    """A complete drawing: lines over a common axis, or rows of dots in one panel per group."""

    name: str  # of downloaded files
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    height: float
    x_ticks: Sequence[tuple[float, Sequence[str]]] = ()  # position, lines of text
    y_ticks: Sequence[tuple[float, str]] = ()
    panels: Sequence[Panel] = ()  # empty for a line chart
    over: str = "resampled sentences"  # what its intervals account for
    divider: tuple[float, str] | None = None  # position of a vertical line, and what is on its right

    @property
    def values(self) -> list[Value]:
        return [point.value for line in self.lines for point in line.points]


Ticks = Sequence[tuple[float, Sequence[str]]]


def chart(name: str, title: str, x_label: str, y_label: str, series: Sequence[Series], x_ticks: Ticks) -> Chart:
    """A line chart; the axes contain all values, ticks and intervals, and the vertical one starts at 0."""
    values = [value for each in series for value in (*each.values, *(v for seed in each.seeds for v in seed))]
    places = [*(x for x, _ in x_ticks), *(value.x for value in values)]
    first, last = min(places), max(places)
    highest = max((y for value in values for y in (value.y, value.high or 0)), default=0.0) or 1.0
    step = nice_step(highest)
    steps = math.ceil(highest / step - 1e-9)

    def across(x: float) -> float:
        if first == last:
            return (LEFT + RIGHT) / 2
        return _between(LEFT + MARGIN, RIGHT - MARGIN, x - first, last - first)

    def up(y: float) -> float:
        return _between(BOTTOM, TOP, y, steps * step)

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
        for each in series
    ]
    return Chart(
        name,
        title,
        x_label,
        y_label,
        lines,
        BOTTOM + 34 + 24 * max((len(text) for _, text in x_ticks), default=1),
        [(across(x), text) for x, text in x_ticks],
        [(up(index * step), f"{index * step:g}") for index in range(steps + 1)],
    )


ROW = 38  # height of a row of dots, with the arm's name above them
GAP = 26  # between panels


def dot_plot(
    name: str, title: str, x_label: str, y_label: str, series: Sequence[Series], groups: Ticks, sign: int = 1
) -> Chart:
    """One row per arm, the largest mean first or, if `sign` is -1, last; one panel per group, all with the same scale.

    The scale starts at 0 unless all values are far from it and they differ.
    """
    ranked = sorted(series, key=lambda each: -sign * sum(value.y for value in each.values) / max(len(each.values), 1))
    limits = [y for each in series for v in each.values for y in (v.y, v.low, v.high) if y is not None] or [0.0, 1.0]
    low, high = min(limits), max(limits) or 1.0
    low = 0.0 if low < high / 2 or high - low < 1e-6 * high else low
    step = nice_step(high - low, at_least=4 if len(groups) == 1 else 2)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    top = 8 + 22 * max(len(heading) for _, heading in groups)
    width = (RIGHT - 16 - GAP * (len(groups) - 1)) / len(groups)
    lefts = {x: 16 + place * (width + GAP) for place, (x, _) in enumerate(groups)}

    def across(x: float, y: float) -> float:
        """Where y is in the panel of the group x."""
        return _between(lefts[x], lefts[x] + width, y / step - first, last - first)

    def point(value: Value, height: float) -> Point:
        ends = None
        if value.low is not None and value.high is not None:
            ends = across(value.x, value.low), across(value.x, value.high)
        return Point(across(value.x, value.y), height, value, ends)

    lines = [
        Line(each, [point(value, top + ROW * row + 28) for value in each.values]) for row, each in enumerate(ranked)
    ]
    panels = [
        Panel(
            heading,
            round(lefts[x], 2),
            round(lefts[x] + width, 2),
            [(across(x, number * step), f"{number * step:g}") for number in range(first, last + 1)],
        )
        for x, heading in groups
    ]
    return Chart(name, title, x_label, y_label, lines, top + ROW * len(series) + 52, panels=panels)


def _between(left: float, right: float, part: float, whole: float) -> float:
    return round(left + (right - left) * part / whole, 2)


def nice_step(top: float, at_least: int = TICKS) -> float:
    """The largest of ..., 1, 2, 5, 10, 20, ... that gives at least this many intervals, up to rounding."""
    power: float = 10.0 ** math.floor(math.log10(top / at_least))
    return max(step for step in (power, 2 * power, 5 * power) if step <= top / at_least * 1.01)


MOST_TICKS = 12  # maximum number of labels below a learning curve


def score_chart(results: Results) -> Chart:
    """The main metric of each arm on the whole test set, with its interval."""
    metric = results.main
    series = []
    for style, arm in enumerate(results.arms):
        score = results.score(arm)
        low, high = score.interval
        limits = "" if low is None or high is None else f", 95 % [{metric.text(low)}, {metric.text(high)}]"
        text = f"{arm.name}: {metric.label} {metric.text(score.mean)}{limits}"
        series.append(Series(arm.name, style, [Value(0, score.mean, text, "all", low, high, results.sentences)]))
    chart = dot_plot("scores", metric.label, metric.label, metric.label, series, [(0.0, ())], metric.sign)
    joint = [results.score(arm).joint_low is not None for arm in results.arms]
    if not any(joint):
        return chart
    single = "" if all(joint) else " (with a single run or copies of one, over sentences alone)"
    return chart._replace(over=f"training runs and sentences{single}")


def length_chart(results: Results) -> Chart:
    """The main metric over the length bands, one line per arm with its interval (Bahdanau et al., 2015, Figure 2)."""
    title = f"{results.main.label} by source length"
    drawn = breakdown_chart(results, results.by_length, title, "source words (test sentences)")
    longer = first_longer([group for group in next(iter(results.by_length.arms.values())) if group is not None])
    if longer is None or drawn.panels:
        return drawn
    (left, _), (right, _) = drawn.x_ticks[longer - 1 : longer + 1]
    return drawn._replace(divider=(round((left + right) / 2, 2), LONGER))


def breakdown_chart(results: Results, breakdown: Breakdown, title: str = "", x_label: str = "") -> Chart:
    """The main metric in the groups, one line per arm with its interval; a dot plot where lines would overlap.

    That is for more than `MOST_LINES` arms, and for a single group.
    """
    name, metric = breakdown.name, results.main
    series = [
        Series(arm.name, style, list(_in_groups(results, arm.name, breakdown)))
        for style, arm in enumerate(results.arms)
        if arm.name in breakdown.arms
    ]
    first = next(iter(breakdown.arms.values()))
    ticks = [
        (float(place), (label,) if result is None or result.bounds else (label, f"({result.sentences:,})"))
        for place, (label, result) in enumerate(zip(breakdown.groups, first, strict=True))
    ]
    file, title, x_label = f"by_{name.replace(' ', '_')}", title or name.capitalize(), x_label or name
    if len(series) > MOST_LINES or len(ticks) < 2:
        return dot_plot(file, title, f"{metric.label} by {name}", metric.label, series, ticks, metric.sign)
    return chart(file, title, x_label, metric.label, series, ticks)


def _in_groups(results: Results, arm: str, breakdown: Breakdown) -> Iterator[Value]:
    for place, (label, result) in enumerate(zip(breakdown.groups, breakdown.arms[arm], strict=True)):
        if result is not None:
            own = f" ({result.bounds})" if result.bounds else ""
            main, *others = shown_in_groups(results)
            limits = f", 95 % {within}" if (within := interval(result, main)) else ""
            scores = [f"{main.label} {main.text(result.main.value)}{limits}"]
            scores += [f"{each.label} {each.text(result.scores[each.key].value)}" for each in others]
            text = f"{arm}, {label}{own}: {', '.join(scores)}; sentences: {size(result)}"
            score = result.main
            yield Value(place, score.value, text, label, score.low, score.high, result.sentences, result.few)


def learning_curve_charts(results: Results, runs: Mapping[str, Sequence[Curve]]) -> list[Chart]:
    """Validation score and loss over epochs: a line per arm with the mean over its seeds, and a thin line per seed."""
    named = [(arm.name, runs.get(arm.name, ())) for arm in results.arms]
    return [
        _curves(f"Validation {results.main.label}", results.main.label, named, score_points, results.main.digits),
        _curves("Validation loss", "nats per token", named, loss_points, digits=3),
    ]


def _curves(
    title: str,
    quantity: str,
    arms: Sequence[tuple[str, Sequence[Curve]]],
    points: Callable[[Curve], Points],
    digits: int,
) -> Chart:
    def values(arm: str, curve: Points) -> list[Value]:
        return [Value(epoch, y, f"{arm}, epoch {epoch:g}: {y:.{digits}f}", f"{epoch:g}") for epoch, y in curve]

    series = []
    for style, (arm, runs) in enumerate(arms):
        seeds = [points(run) for run in runs]
        several = [values(arm, seed) for seed in seeds] if len(seeds) > 1 else []
        series.append(Series(arm, style, values(arm, mean_over_seeds(seeds)), several))
    last = int(max((epoch for _, runs in arms for run in runs for epoch in run.epoch), default=1))
    every = -(-last // MOST_TICKS)
    ticks = [(float(epoch), (str(epoch),)) for epoch in range(every, last + 1, every)]
    ticks = [(1.0, ("1",)), *ticks] if every > 1 else ticks
    return chart(title.lower().replace(" ", "_"), title, "epoch", quantity, series, ticks)
