"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seq2seq_attn.report.pictures.style import drawing, legend_below, line_styles
from seq2seq_attn.results.observations import Curve

Points = Sequence[tuple[float, float]]  # (epoch, value)


def curves(runs: Mapping[str, Sequence[Curve]]) -> Figure:
    """Validation BLEU and loss against epochs: an arm's thick line is the mean of its seeds' thin ones."""
    with drawing(runs):
        figure = Figure(figsize=(10, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _panel(left, "validation BLEU", {arm: [bleu_points(run) for run in each] for arm, each in runs.items()})
        _panel(
            right,
            "validation loss, nats per token",
            {arm: [loss_points(run) for run in each] for arm, each in runs.items()},
        )
        left.set_ylim(bottom=0)
        title = "How fast each arm learns, and where it ends"
        several = any(len(each) > 1 for each in runs.values())
        figure.suptitle(f"{title} (thick: mean over seeds, thin: each seed)" if several else title)
        legend_below(figure, right)
    return figure


def mean_over_seeds(seeds: Sequence[Points]) -> Points:
    """The mean at each epoch that every seed reached: with fewer, the line would jump where a seed stops."""
    by_epoch = [dict(points) for points in seeds]
    shared = sorted(set.intersection(*(set(values) for values in by_epoch))) if by_epoch else []
    return [(epoch, sum(values[epoch] for values in by_epoch) / len(by_epoch)) for epoch in shared]


def bleu_points(curve: Curve) -> Points:
    pairs = zip(curve.epoch, curve.validation_bleu, strict=True)
    return [(epoch, bleu) for epoch, bleu in pairs if bleu is not None]


def loss_points(curve: Curve) -> Points:
    return list(zip(curve.epoch, curve.validation_loss, strict=True))


def _panel(axes: Axes, quantity: str, arms: Mapping[str, Sequence[Points]]) -> None:
    styles = line_styles(list(arms))
    for arm, seeds in arms.items():
        if len(seeds) > 1:
            for points in seeds:
                axes.plot(*_columns(points), color=styles[arm]["color"], linewidth=0.7, alpha=0.5)
        axes.plot(*_columns(mean_over_seeds(seeds)), label=arm, linewidth=2, markersize=5, **styles[arm])
    axes.set_xlabel("epoch")
    axes.set_ylabel(quantity)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [epoch for epoch, _ in points], [value for _, value in points]
