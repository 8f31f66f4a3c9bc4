"""The charts of an experiment: their series, labels and notes, in the units of the data.

`html_charts` draws them on the page, `figures` with matplotlib. All charts have the arms in one order, the best first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from seq2seq_attn.report.table import interval, shown_in_groups, size
from seq2seq_attn.results.breakdowns import ENOUGH, Breakdown, GroupResult
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.results import ArmResult, Results

MOST_LINES = 7  # per chart; more lines would overlap and share colors
MOST_TICKS = 12  # below a learning curve
FEWEST = 10  # different sentences of a group that is drawn, unless all groups are smaller

Points = Sequence[tuple[float, float]]  # (epoch, value)
Ticks = Sequence[tuple[float, Sequence[str]]]  # x, lines of text


class Value(NamedTuple):
    """A point, with its tooltip."""

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


class Chart(NamedTuple):
    """Lines over a common axis, or rows of dots in one panel per tick."""

    name: str  # of downloaded files
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    ticks: Ticks
    as_dots: bool = False
    item: str = "sentence"  # what one line of the test set is called
    over: str = "resampled sentences"  # what its intervals account for
    divider: tuple[float, str] | None = None  # x of a vertical line, and what is on its right
    left_out: Sequence[str] = ()  # groups that are too small to be drawn
    digits: int = 1  # after the decimal point of a value that is written beside its arm

    @property
    def lowest(self) -> float:
        """Where the vertical axis of lines begins: at 0, or at the lowest value or limit below it."""
        values = (value for each in self.series for value in (*each.values, *(v for seed in each.seeds for v in seed)))
        return min((y for value in values for y in (value.y, value.low or 0.0, 0.0)), default=0.0)

    @property
    def notes(self) -> list[str]:
        """What intervals and hollow marks are, and what is not drawn."""
        values = [value for series in self.series for value in series.values]
        intervals = [f"95 % intervals over {self.over}"] if any(value.low is not None for value in values) else []
        hollow = [f"hollow: fewer than {ENOUGH} {self.item}s"] if any(value.few for value in values) else []
        left_out = (
            [f"not drawn, for fewer than {FEWEST} {self.item}s: {', '.join(self.left_out)}"] if self.left_out else []
        )
        return [*intervals, *hollow, *left_out]


def _ranked(results: Results) -> Iterator[tuple[int, ArmResult]]:
    """The arms with their styles, the best in the main metric first."""
    return iter(sorted(enumerate(results.arms), key=lambda each: -results.main.sign * results.score(each[1]).mean))


def score_chart(results: Results) -> Chart:
    """The main metric of each arm on the whole test set, with its interval, in rows of dots.

    If the chart by length has rows of dots too, it is the same chart, whose first panel is the whole test set.
    """
    metric, by_length = results.main, length_chart(results)
    values = {}
    for arm in results.arms:
        score = results.score(arm)
        low, high = score.interval
        limits = "" if low is None or high is None else f", 95 % [{metric.text(low)}, {metric.text(high)}]"
        text = f"{arm.name}: {metric.label} {metric.text(score.mean)}{limits}"
        values[arm.name] = Value(-1, score.mean, text, "all", low, high, results.sentences)
    joint = [results.score(arm).joint_low is not None for arm in results.arms]
    items = f"{results.item}s"
    single = "" if all(joint) else f" (with a single run or copies of one, over {items} alone)"
    over = f"training runs and {items}{single}" if any(joint) else f"resampled {items}"
    series = [each._replace(values=[values[each.name]]) for each in by_length.series]
    labels = metric.label, metric.label, metric.label
    chart = Chart("scores", *labels, series, [(-1, ())], True, results.item, over, digits=metric.digits)
    if not by_length.as_dots:
        return chart
    return chart._replace(
        title=by_length.title,
        series=[each._replace(values=[values[each.name], *each.values]) for each in by_length.series],
        ticks=[(-1, ("all", f"({results.sentences:,})")), *by_length.ticks],
        x_label=f"{metric.label} of all test {items}, and by {by_length.x_label}",
        over=f"{over}; by length over resampled {items}" if any(joint) else over,
        left_out=by_length.left_out,
    )


def length_chart(results: Results) -> Chart:
    """The main metric over the length bands, one line per arm with its interval (Bahdanau et al., 2015, Figure 2)."""
    title = f"{results.main.label} by source length"
    chart = breakdown_chart(results, results.by_length, title, f"source {results.unit} (test {results.item}s)")
    longer = _first_longer([group for group in next(iter(results.by_length.arms.values())) if group is not None])
    last, _ = chart.ticks[-1]
    return (
        chart if longer is None or longer > last else chart._replace(divider=(longer - 0.5, "longer than in training"))
    )


def _first_longer(bands: Sequence[GroupResult]) -> int | None:
    """The place of the first band that is longer than all training sentences; None if all or none are."""
    place = sum(not band.longer_than_training for band in bands)
    return place if 0 < place < len(bands) else None


def breakdown_chart(results: Results, breakdown: Breakdown, title: str = "", x_label: str = "") -> Chart:
    """The main metric in the groups, one line per arm with its interval; rows of dots where lines would overlap.

    That is for more than `MOST_LINES` arms, and for a single group.
    """
    name, metric = breakdown.name, results.main
    drawn = _drawn(breakdown)
    series = [
        Series(arm.name, style, [value for value in _in_groups(results, arm.name, breakdown) if value.x in drawn])
        for style, arm in _ranked(results)
        if arm.name in breakdown.arms
    ]
    first = next(iter(breakdown.arms.values()))
    headings = [
        (label,) if result is None or result.bounds else (label, f"({result.sentences:,})")
        for label, result in zip(breakdown.groups, first, strict=True)
    ]
    ticks = [(place, headings[place]) for place in drawn]
    as_dots = len(series) > MOST_LINES or len(ticks) < 2
    return Chart(
        f"by_{name.replace(' ', '_')}",
        title or name.capitalize(),
        f"{metric.label} by {name}" if as_dots and not x_label else x_label or name,
        metric.label,
        series,
        ticks,
        as_dots,
        results.item,
        f"resampled {results.item}s",
        left_out=[" ".join(heading) for place, heading in enumerate(headings) if place not in drawn],
        digits=metric.digits,
    )


def _drawn(breakdown: Breakdown) -> Sequence[int]:
    """The places of the groups with enough sentences to be drawn: a group of two would take as much room as others."""
    groups = enumerate(zip(*breakdown.arms.values(), strict=True))
    drawn = [place for place, each in groups if any(result and result.different >= FEWEST for result in each)]
    return drawn or range(len(breakdown.groups))


def _in_groups(results: Results, arm: str, breakdown: Breakdown) -> Iterator[Value]:
    for place, (label, result) in enumerate(zip(breakdown.groups, breakdown.arms[arm], strict=True)):
        if result is not None:
            own = f" ({result.bounds})" if result.bounds else ""
            main, *others = shown_in_groups(results)
            limits = f", 95 % {within}" if (within := interval(result, main)) else ""
            scores = [f"{main.label} {main.text(result.main.value)}{limits}"]
            scores += [f"{each.label} {each.text(result.scores[each.key].value)}" for each in others]
            text = f"{arm}, {label}{own}: {', '.join(scores)}; {results.item}s: {size(result, results.unit)}"
            score = result.main
            yield Value(place, score.value, text, label, score.low, score.high, result.sentences, result.few)


def learning_curve_charts(results: Results, runs: Mapping[str, Sequence[Curve]]) -> list[Chart]:
    """Validation score and loss over epochs: a line per arm with the mean over its seeds, and a thin line per seed."""
    metric = results.main
    named = [(style, arm.name, runs.get(arm.name, ())) for style, arm in _ranked(results)]
    return [
        _curves(f"Validation {metric.label}", metric.label, named, _score_points, metric.digits),
        _curves("Validation loss", "nats per token", named, _loss_points, digits=3),
    ]


def _curves(
    title: str,
    quantity: str,
    arms: Sequence[tuple[int, str, Sequence[Curve]]],
    points: Callable[[Curve], Points],
    digits: int,
) -> Chart:
    def values(arm: str, curve: Points) -> list[Value]:
        return [Value(epoch, y, f"{arm}, epoch {epoch:g}: {y:.{digits}f}", f"{epoch:g}") for epoch, y in curve]

    series = []
    for style, arm, runs in arms:
        seeds = [points(run) for run in runs]
        several = [values(arm, seed) for seed in seeds] if len(seeds) > 1 else []
        series.append(Series(arm, style, values(arm, _mean_over_seeds(seeds)), several))
    last = math.ceil(max((epoch for *_, runs in arms for run in runs for epoch in run.epoch), default=1))
    every = -(-last // MOST_TICKS)
    ticks = dict.fromkeys([1, *range(every, last + 1, every)])
    return Chart(
        title.lower().replace(" ", "_"), title, "epoch", quantity, series, [(epoch, (str(epoch),)) for epoch in ticks]
    )


def _mean_over_seeds(seeds: Sequence[Points]) -> Points:
    """The mean at each epoch that all seeds reached; over fewer seeds the line would jump where one stops."""
    by_epoch = [dict(points) for points in seeds]
    shared = sorted(set.intersection(*(set(values) for values in by_epoch))) if by_epoch else []
    return [(epoch, sum(values[epoch] for values in by_epoch) / len(by_epoch)) for epoch in shared]


def _score_points(curve: Curve) -> Points:
    pairs = zip(curve.epoch, curve.validation_score, strict=True)
    return [(epoch, score) for epoch, score in pairs if score is not None]


def _loss_points(curve: Curve) -> Points:
    return list(zip(curve.epoch, curve.validation_loss, strict=True))
