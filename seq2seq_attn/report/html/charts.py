"""The charts of an experiment: BLEU by source length (Bahdanau et al., 2015, Figure 2) and learning curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from seq2seq_attn.report.html.chart import Chart, Series, Value, chart
from seq2seq_attn.report.pictures.curves import Points, bleu_points, loss_points, mean_over_seeds
from seq2seq_attn.report.where_tables import size
from seq2seq_attn.results.observations import Curve
from seq2seq_attn.results.results import BandResult, Results
from seq2seq_attn.results.where import Breakdown

MOST_TICKS = 12  # epochs that are named below a learning curve


def bleu_by_length(results: Results) -> Chart:
    """A line an arm over the length bands, within its interval where there is one."""
    bands = results.arms[0].bleu_by_length
    series = [
        Series(arm.name, style, [_in_band(arm.name, place, band) for place, band in enumerate(arm.bleu_by_length)])
        for style, arm in enumerate(results.arms)
    ]
    ticks = [(float(place), (band.label, f"({band.sentences:,})")) for place, band in enumerate(bands)]
    return chart("BLEU by source length", "source words (test sentences)", "BLEU", series, ticks)


def breakdown_chart(results: Results, breakdown: Breakdown) -> Chart:
    """A line an arm over the groups, within its interval."""
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


def learning_curves(results: Results, runs: Mapping[str, Sequence[Curve]]) -> list[Chart]:
    """Validation BLEU and loss against epochs: an arm's line is the mean of its seeds' thin ones."""
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
    def values(arm: str, of: Points) -> list[Value]:
        return [Value(epoch, y, f"{arm}, epoch {epoch:g}: {y:.{digits}f}") for epoch, y in of]

    series = []
    for style, (arm, runs) in enumerate(arms):
        seeds = [points(run) for run in runs]
        several = [values(arm, seed) for seed in seeds] if len(seeds) > 1 else []
        series.append(Series(arm, style, values(arm, mean_over_seeds(seeds)), several))
    last = int(max((epoch for _, runs in arms for run in runs for epoch in run.epoch), default=1))
    every = -(-last // MOST_TICKS)
    ticks = [(float(epoch), (str(epoch),)) for epoch in range(every, last + 1, every)]
    return chart(title, "epoch", quantity, series, [(1.0, ("1",)), *ticks] if every > 1 else ticks)
