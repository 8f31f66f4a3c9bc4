"""The report as one HTML file: no network; usable without JavaScript, in print, by keyboard and on a phone.

The templates, the style sheet and the script are in `html/`. The line charts are SVG drawings whose numbers are
computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from seq2seq_attn.report.breakdown_tables import EXPLAINED, LENGTH, breakdown_tables, size
from seq2seq_attn.report.columns import columns, signed
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.figures import Points, bleu_points, loss_points, mean_over_seeds
from seq2seq_attn.report.html_attention import as_data, views_of_examples, views_of_maps
from seq2seq_attn.report.table import notes, seeds
from seq2seq_attn.results.observations import (
    SHOWN,
    AttentionMap,
    ContrastiveSentences,
    Curve,
    Example,
    Reproduction,
)
from seq2seq_attn.results.results import BandResult, Breakdown, Results


class Contents(NamedTuple):
    """The contents of a results folder; None for files that older results do not have."""

    results: Results
    curves: Mapping[str, Sequence[Curve]]
    maps: Sequence[AttentionMap]
    examples: Sequence[Example] | None
    sentences: ContrastiveSentences | None
    reproduction: Reproduction | None


def html_page(contents: Contents) -> str:
    """The report as a self-contained HTML file."""
    results = contents.results
    shown = columns(results)
    tables = list(breakdown_tables(results))
    attention = views_of_maps(contents.maps) if contents.examples is None else views_of_examples(contents.examples)
    return _ENVIRONMENT.get_template("page.html").render(
        results=results,
        styles={arm.name: style for style, arm in enumerate(results.arms)},
        conclusion=conclusion(results),
        columns=shown,
        notes=notes(results, shown),
        length_chart=length_chart(results),
        length_tables=[table for table in tables if table.name == LENGTH],
        breakdowns=[
            (table, table.breakdown and breakdown_chart(results, table.breakdown))
            for table in tables
            if table.name != LENGTH
        ],
        explained=EXPLAINED,
        curve_charts=learning_curve_charts(results, contents.curves),
        has_curves=any(contents.curves.values()),
        has_bands=any(band.bleu_low is not None for arm in results.arms for band in arm.bleu_by_length),
        attention=attention,
        data={"examples": as_data(attention), "best": max(results.arms, key=lambda arm: arm.bleu.mean).name},
        has_gold=any(view.gold for sentence in attention for view in sentence.views),
        has_beams=contents.examples is not None,
        sentences=contents.sentences,
        ends=SHOWN,
        reproduction=contents.reproduction,
        seeds=seeds(results.arms),
        signed=signed,
    )


def _as_yaml(values: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)


def _minus(number: str) -> str:
    return number.replace("-", "\N{MINUS SIGN}")


def _probability(probability: float) -> str:
    return "<0.01" if probability < 0.005 else f"{probability:.2f}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("seq2seq_attn.report", "html"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"yaml": _as_yaml, "minus": _minus, "probability": _probability}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}


LEFT, RIGHT, TOP, BOTTOM = 64, 664, 14, 286  # of the axes, in the units of the drawing
MARGIN = 20  # between the axes and the outer values
TICKS = 5  # least number of intervals on the vertical axis


class Value(NamedTuple):
    """A point in the units of the data, with its tooltip."""

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
    """A value with its position on the drawing."""

    x: float
    y: float
    value: Value


class Line(NamedTuple):
    """A series with its position on the drawing; paths are SVG path data."""

    series: Series
    path: str
    points: Sequence[Point]
    band: str  # between the limits of the intervals; "" without intervals
    seeds: Sequence[str]


class Chart(NamedTuple):
    """A complete drawing."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, Sequence[str]]]  # position, lines of text
    y_ticks: Sequence[tuple[float, str]]
    lines: Sequence[Line]


class Axes(NamedTuple):
    """The transformation from data to drawing; the vertical axis starts at 0."""

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
        upper = [(x, high) for x, _, high in limits if high is not None]
        lower = [(x, low) for x, low, _ in reversed(limits) if low is not None]
        return Line(
            series,
            self.path((value.x, value.y) for value in series.values),
            [Point(self.across(value.x), self.up(value.y), value) for value in series.values],
            f"{self.path([*upper, *lower])} Z" if upper else "",
            [self.path((value.x, value.y) for value in seed) for seed in series.seeds],
        )


def chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], x_ticks: Sequence[tuple[float, Sequence[str]]]
) -> Chart:
    """A chart whose axes contain all values, ticks and intervals."""
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
    """The largest of ..., 1, 2, 5, 10, 20, ... that gives at least `TICKS` intervals, up to rounding."""
    power: float = 10.0 ** math.floor(math.log10(top / TICKS))
    return max(step for step in (power, 2 * power, 5 * power) if step <= top / TICKS * 1.01)


MOST_TICKS = 12  # most labels below a learning curve


def length_chart(results: Results) -> Chart:
    """BLEU over the length bands, one line per arm with its interval (Bahdanau et al., 2015, Figure 2)."""
    bands = results.arms[0].bleu_by_length
    series = [
        Series(arm.name, style, [_in_band(arm.name, place, band) for place, band in enumerate(arm.bleu_by_length)])
        for style, arm in enumerate(results.arms)
    ]
    ticks = [(float(place), (band.label, f"({band.sentences:,})")) for place, band in enumerate(bands)]
    return chart("BLEU by source length", "source words (test sentences)", "BLEU", series, ticks)


def breakdown_chart(results: Results, breakdown: Breakdown) -> Chart:
    """BLEU over the groups, one line per arm with its interval."""
    series = [
        Series(arm.name, style, list(_in_groups(arm.name, breakdown)))
        for style, arm in enumerate(results.arms)
        if arm.name in breakdown.arms
    ]
    first = next(iter(breakdown.arms.values()))
    ticks = [
        (float(place), (label,) if result is None or result.bounds else (label, f"({result.sentences:,})"))
        for place, (label, result) in enumerate(zip(breakdown.groups, first, strict=True))
    ]
    return chart(breakdown.name.capitalize(), breakdown.name, "BLEU", series, ticks)


def _in_groups(arm: str, breakdown: Breakdown) -> Iterator[Value]:
    for place, (label, result) in enumerate(zip(breakdown.groups, breakdown.arms[arm], strict=True)):
        if result is not None:
            interval = f"95 % [{result.low:.1f}, {result.high:.1f}]"
            own = f" ({result.bounds})" if result.bounds else ""
            scores = f"BLEU {result.bleu:.1f}, {interval}, chrF {result.chrf:.1f}"
            text = f"{arm}, {label}{own}: {scores}; sentences: {size(result)}"
            yield Value(place, result.bleu, text, result.low, result.high)


def learning_curve_charts(results: Results, runs: Mapping[str, Sequence[Curve]]) -> list[Chart]:
    """Validation BLEU and loss over epochs: a line per arm, the mean over its seeds, and a thin line per seed."""
    named = [(arm.name, runs.get(arm.name, ())) for arm in results.arms]
    return [
        _curves("Validation BLEU", "BLEU", named, bleu_points, digits=1),
        _curves("Validation loss", "nats per token", named, loss_points, digits=3),
    ]


def _in_band(arm: str, place: int, band: BandResult) -> Value:
    interval = "" if band.bleu_low is None else f", 95 % [{band.bleu_low:.1f}, {band.bleu_high:.1f}]"
    text = f"{arm}, {band.label} words: BLEU {band.bleu:.1f}{interval}"
    return Value(place, band.bleu, text, band.bleu_low, band.bleu_high)


def _curves(
    title: str,
    quantity: str,
    arms: Sequence[tuple[str, Sequence[Curve]]],
    points: Callable[[Curve], Points],
    digits: int,
) -> Chart:
    def values(arm: str, curve: Points) -> list[Value]:
        return [Value(epoch, y, f"{arm}, epoch {epoch:g}: {y:.{digits}f}") for epoch, y in curve]

    series = []
    for style, (arm, runs) in enumerate(arms):
        seeds = [points(run) for run in runs]
        several = [values(arm, seed) for seed in seeds] if len(seeds) > 1 else []
        series.append(Series(arm, style, values(arm, mean_over_seeds(seeds)), several))
    last = int(max((epoch for _, runs in arms for run in runs for epoch in run.epoch), default=1))
    every = -(-last // MOST_TICKS)
    ticks = [(float(epoch), (str(epoch),)) for epoch in range(every, last + 1, every)]
    return chart(title, "epoch", quantity, series, [(1.0, ("1",)), *ticks] if every > 1 else ticks)
