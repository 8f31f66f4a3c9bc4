"""The figures of an experiment: scores by source length and learning curves; and the style of all figures.

Figures are `matplotlib.figure.Figure` objects; pyplot is not imported, and matplotlib's global settings do not change.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from seq2seq_attn.report.font_choice import font_families
from seq2seq_attn.results.breakdowns import ENOUGH, GroupResult
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.results import MetricRecord, Results

Points = Sequence[tuple[float, float]]  # (epoch, value)


class Picture(Figure):
    """A figure that a notebook displays without pyplot, which would register its own backend."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        content = render(self, "png")
        width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
        return content, {"width": width // 2, "height": height // 2}  # for high-density screens


LONGER = "longer than in training"  # bands of sentences


def by_length_figure(results: Results) -> Figure:
    """The main metric over the length bands with 95 % intervals (Bahdanau et al., 2015, Figure 2).

    One line per arm; with more than `MOST_LINES` arms or a single band, one row of dots per arm. Marks of bands with
    fewer than `ENOUGH` sentences are hollow. A vertical line separates the bands that are longer than all training
    sentences.
    """
    arms = {arm: [group for group in groups if group is not None] for arm, groups in results.by_length.arms.items()}
    bands = next(iter(arms.values()))
    label, notes = results.main.label, ["95 % intervals over sentences"]
    if any(band.few for band in bands):
        notes.append(f"hollow: fewer than {ENOUGH} sentences")
    heading = f"{results.experiment}: {label} by source length\n{'; '.join(notes)}"
    if len(arms) > MOST_LINES or len(bands) < 2:
        return _dots_by_length(results, arms, heading)
    styles = line_styles(list(arms))
    with drawing([results.experiment, *styles]):
        figure = Picture(figsize=(7, 4.8), layout="constrained")
        axes = figure.add_subplot()
        for arm, groups in arms.items():
            look, places = styles[arm], range(len(bands))
            axes.plot(places, [band.main.value for band in groups], label=arm, linewidth=2, markersize=7, **look)
            low, high = [band.main.low for band in groups], [band.main.high for band in groups]
            axes.fill_between(places, low, high, color=look["color"], alpha=0.16, linewidth=0)
            few = [(x, band.main.value) for x, band in enumerate(groups) if band.few]
            hollow = {"linestyle": "none", "markersize": 7, "markerfacecolor": "white", "label": "_few"}
            axes.plot(*_columns(few), **{**look, **hollow})
        longer = first_longer(bands)
        if longer is not None:
            axes.axvline(longer - 0.5, color="#777777", linestyle=":", linewidth=1.2, label="_divider")
            top = axes.get_xaxis_transform()  # x of the data, y of the axes
            axes.text(longer - 0.5, 1.01, f"{LONGER} →", transform=top, fontsize=9, color="#555555")
        labels = zip(results.by_length.groups, bands, strict=True)
        axes.set_xticks(range(len(bands)), [f"{words}\n({band.sentences})" for words, band in labels])
        axes.set_xlabel("source length in words (number of test sentences)")
        axes.set_ylabel(f"{label}, mean over seeds")
        axes.set_ylim(bottom=0)
        axes.grid(visible=False, axis="x")
        axes.set_title(heading, pad=6 if longer is None else 18)
        legend_below(figure, axes)
    return figure


def first_longer(bands: Sequence[GroupResult]) -> int | None:
    """The place of the first band that is longer than all training sentences; None if all or none are."""
    place = sum(not band.longer_than_training for band in bands)
    return place if 0 < place < len(bands) else None


def _dots_by_length(results: Results, arms: Mapping[str, Sequence[GroupResult]], heading: str) -> Picture:
    """One panel per band, one row per arm, the best one on top."""
    best_last = sorted(results.arms, key=lambda arm: results.main.sign * results.score(arm).mean)
    ranked = [arm.name for arm in best_last]
    bands = arms[ranked[0]]
    with drawing([results.experiment, *ranked]):
        figure = Picture(figsize=(3.2 + 1.7 * len(bands), 1.6 + 0.27 * len(ranked)), layout="constrained")
        panels = figure.subplots(1, len(bands), sharey=True, sharex=True, squeeze=False)[0]
        for place, (axes, words, band) in enumerate(zip(panels, results.by_length.groups, bands, strict=True)):
            for row, arm in enumerate(ranked):
                own = arms[arm][place]
                ends = [own.main.low, own.main.high]
                axes.plot(ends, [row, row], color=COLORS[0], linewidth=1.5, label="_interval")
                face = "white" if own.few else COLORS[0]
                axes.plot(own.main.value, row, "o", color=COLORS[0], markerfacecolor=face, markersize=6, label=arm)
            axes.set_title(f"{words} words\n({band.sentences:,} sentences)", fontsize=9)
            axes.set_yticks(range(len(ranked)), ranked)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        figure.suptitle(heading)
        figure.supxlabel(f"{results.main.label}, mean over seeds", fontsize=10)
    return figure


def learning_curve_figure(runs: Mapping[str, Sequence[Curve]], metric: MetricRecord) -> Figure:
    """Validation score and loss over epochs: a thick line per arm with the mean over its seeds, a thin line per seed.

    With more than `MOST_LINES` arms, a panel per arm, with the means of the others in gray.
    """
    quantity = f"validation {metric.label}"
    scores = {arm: [score_points(run) for run in each] for arm, each in runs.items()}
    loss = {arm: [loss_points(run) for run in each] for arm, each in runs.items()}
    several = any(len(each) > 1 for each in runs.values())
    title = "Learning curves (thick: mean over seeds, thin: each seed)" if several else "Learning curves"
    rows = math.ceil(len(runs) / PANELS)
    with drawing(runs):
        if len(runs) > MOST_LINES:
            figure = Picture(figsize=(10, 1.2 + 3.1 * rows), layout="constrained")
            figure.suptitle(f"{title}\ngray: the other arms")
            above, below = figure.subfigures(2, 1, squeeze=False).flat
            _panel_per_arm(above, quantity, scores, bottom=0)
            _panel_per_arm(below, "validation loss, nats per token", loss)
            return figure
        figure = Picture(figsize=(10, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _curves_panel(left, quantity, scores)
        _curves_panel(right, "validation loss, nats per token", loss)
        left.set_ylim(bottom=0)
        figure.suptitle(title)
        legend_below(figure, right)
    return figure


def _panel_per_arm(
    part: SubFigure, quantity: str, arms: Mapping[str, Sequence[Points]], bottom: float | None = None
) -> None:
    panels = part.subplots(math.ceil(len(arms) / PANELS), PANELS, sharex=True, sharey=True, squeeze=False).flat
    means = {arm: _columns(mean_over_seeds(seeds)) for arm, seeds in arms.items()}
    for place, (axes, (arm, seeds)) in enumerate(zip(panels, arms.items(), strict=False)):
        for other in means:
            if other != arm:
                axes.plot(*means[other], color="#BBBBBB", linewidth=0.8)
        _draw_seeds(axes, arm, seeds, {"color": COLORS[0], "marker": "o", "markersize": 2})
        axes.set_title(textwrap.fill(arm, width=24), fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.tick_params(labelbottom=place >= len(arms) - PANELS)  # the lowest panel of each column
    for axes in panels[len(arms) :]:
        axes.set_axis_off()
    panels[0].set_ylim(bottom=bottom)
    part.supylabel(quantity, fontsize=10)
    part.supxlabel("epoch", fontsize=10)


def mean_over_seeds(seeds: Sequence[Points]) -> Points:
    """The mean at each epoch that all seeds reached; over fewer seeds the line would jump where one stops."""
    by_epoch = [dict(points) for points in seeds]
    shared = sorted(set.intersection(*(set(values) for values in by_epoch))) if by_epoch else []
    return [(epoch, sum(values[epoch] for values in by_epoch) / len(by_epoch)) for epoch in shared]


def score_points(curve: Curve) -> Points:
    pairs = zip(curve.epoch, curve.validation_score, strict=True)
    return [(epoch, score) for epoch, score in pairs if score is not None]


def loss_points(curve: Curve) -> Points:
    return list(zip(curve.epoch, curve.validation_loss, strict=True))


def _curves_panel(axes: Axes, quantity: str, arms: Mapping[str, Sequence[Points]]) -> None:
    styles = line_styles(list(arms))
    for arm, seeds in arms.items():
        _draw_seeds(axes, arm, seeds, {"markersize": 5, **styles[arm]})
    axes.set_xlabel("epoch")
    axes.set_ylabel(quantity)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_seeds(axes: Axes, arm: str, seeds: Sequence[Points], look: Mapping[str, Any]) -> None:
    """A thick line for the mean over the seeds of an arm, over a thin line per seed if there are several."""
    for points in seeds if len(seeds) > 1 else ():
        axes.plot(*_columns(points), color=look["color"], linewidth=0.7, alpha=0.5)
    axes.plot(*_columns(mean_over_seeds(seeds)), label=arm, linewidth=2, **look)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    return [epoch for epoch, _ in points], [value for _, value in points]


# Okabe & Ito's palette, safe for color-blind readers, without its yellow: too pale for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MOST_LINES = len(COLORS)  # per figure; more lines would overlap and share colors
PANELS = 5  # in a row
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", (0, (6, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (2.5, 1)))  # dashes and gaps, in line widths

SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "figure.titlesize": 11,
    "figure.constrained_layout.h_pad": 0.08,  # inches
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    "savefig.dpi": 200,
    "text.parse_math": False,  # tokens and names are text, also between two dollar signs
    "svg.fonttype": "path",  # text as paths: the viewer may lack the font
    "svg.hashsalt": "seq2seq_attn",  # equal figures have equal bytes
}


@contextmanager
def drawing(texts: Iterable[str]) -> Iterator[None]:
    """A context in which figures get the common style and fonts with the glyphs of these texts."""
    with matplotlib.rc_context({**SETTINGS, "font.family": font_families(texts)}), _without_warnings_of_fonts():
        yield


@contextmanager
def _without_warnings_of_fonts() -> Iterator[None]:
    """matplotlib warns of each character and script that it cannot draw; `font_families` has, in one line."""
    with warnings.catch_warnings():
        for message in ("Glyph .* missing from", "Matplotlib currently does not support"):
            warnings.filterwarnings("ignore", message=message)
        yield


def line_styles(arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Color, marker and dashes of each arm's lines; the combination repeats after 56 arms."""
    return {
        arm: {
            "color": COLORS[index % len(COLORS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": LINES[index % len(LINES)],
        }
        for index, arm in enumerate(arms)
    }


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for the figure, outside the axes, so that it hides no line."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, handlelength=4)


def render(figure: Figure, kind: str) -> bytes:
    """The figure as "png" or "svg"; equal figures have equal bytes."""
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with matplotlib.rc_context(SETTINGS), _without_warnings_of_fonts():
        figure.savefig(buffer, format=kind, metadata=metadata, bbox_inches="tight")
    return buffer.getvalue()
