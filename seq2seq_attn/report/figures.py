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

from seq2seq_attn.report.charts import (
    MOST_LINES,
    Chart,
    Series,
    Value,
    learning_curve_charts,
    length_chart,
    score_chart,
)
from seq2seq_attn.report.font_choice import font_families
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.results import Results


class Picture(Figure):
    """A figure that a notebook displays without pyplot, which would register its own backend."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        content = render(self, "png")
        width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
        return content, {"width": width // 2, "height": height // 2}  # for high-density screens


def by_length_figure(results: Results) -> Figure:
    """The main metric over the length bands with 95 % intervals (Bahdanau et al., 2015, Figure 2).

    One line per arm; with more than `MOST_LINES` arms or a single band, one row of dots per arm, also on the whole test
    set. Marks of bands with few sentences are hollow. A vertical line separates the bands that are longer than all
    training sentences.
    """
    chart = length_chart(results)
    chart = score_chart(results) if chart.as_dots else chart
    heading = "\n".join([f"{results.experiment}: {chart.title}", *chart.notes])
    with drawing([results.experiment, *(series.name for series in chart.series)]):
        if chart.as_dots:
            return _dots(chart, heading)
        figure = Picture(figsize=(7, 4.8), layout="constrained")
        axes = figure.add_subplot()
        _lines(axes, chart)
        axes.grid(visible=False, axis="x")
        axes.set_title(heading, pad=18 if chart.divider else 6)
        legend_below(figure, axes)
    return figure


def learning_curve_figure(results: Results, runs: Mapping[str, Sequence[Curve]]) -> Figure:
    """Validation score and loss over epochs: a thick line per arm with the mean over its seeds, a thin line per seed.

    With more than `MOST_LINES` arms, a panel per arm, with the means of the others in gray.
    """
    charts = learning_curve_charts(results, runs)
    arms = charts[0].series
    several = any(series.seeds for series in arms)
    title = "Learning curves (thick: mean over seeds, thin: each seed)" if several else "Learning curves"
    with drawing(series.name for series in arms):
        if len(arms) > MOST_LINES:
            figure = Picture(figsize=(10, 1.2 + 3.1 * math.ceil(len(arms) / PANELS)), layout="constrained")
            figure.suptitle(f"{title}\ngray: the other arms")
            for part, chart in zip(figure.subfigures(2, 1, squeeze=False).flat, charts, strict=True):
                _panel_per_series(part, chart)
            return figure
        figure = Picture(figsize=(10, 4.8), layout="constrained")
        for axes, chart in zip(figure.subplots(1, 2), charts, strict=True):
            _lines(axes, chart)
            axes.set_title(chart.title)
        figure.suptitle(title)
        legend_below(figure, axes)
    return figure


def _lines(axes: Axes, chart: Chart) -> None:
    for series in chart.series:
        _line(axes, series, {"markersize": 6, **line_style(series.style)})
    if chart.divider:
        x, text = chart.divider
        axes.axvline(x, color="#777777", linestyle=":", linewidth=1.2, label="_divider")
        top = axes.get_xaxis_transform()  # x of the data, y of the axes
        axes.text(x, 1.01, f"{text} →", transform=top, fontsize=9, color="#555555")
    axes.set_xticks([x for x, _ in chart.ticks], ["\n".join(text) for _, text in chart.ticks])
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.set_ylim(bottom=_bottom(chart))


def _line(axes: Axes, series: Series, look: Mapping[str, Any]) -> None:
    """A thick line with its intervals, over a thin line per seed if there are several."""
    for seed in series.seeds:
        axes.plot(*_columns(seed), color=look["color"], linewidth=0.7, alpha=0.5)
    axes.plot(*_columns(series.values), label=series.name, linewidth=2, **look)
    if limits := [(v.x, v.low, v.high) for v in series.values if v.low is not None and v.high is not None]:
        x, low, high = zip(*limits, strict=True)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.16, linewidth=0)
    hollow = {"linestyle": "none", "markerfacecolor": "white", "label": "_few"}
    axes.plot(*_columns([value for value in series.values if value.few]), **{**look, **hollow})


def _dots(chart: Chart, heading: str) -> Picture:
    """One panel per tick, one row per series, the first one on top."""
    names = [series.name for series in chart.series]
    figure = Picture(figsize=(3.2 + 1.7 * len(chart.ticks), 1.6 + 0.27 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(chart.ticks), sharey=True, sharex=True, squeeze=False)[0]
    for axes, (x, text) in zip(panels, chart.ticks, strict=True):
        for row, series in enumerate(chart.series):
            for value in (each for each in series.values if each.x == x):
                if value.low is not None and value.high is not None:
                    axes.plot([value.low, value.high], [row, row], color=COLORS[0], linewidth=1.5, label="_interval")
                face = "white" if value.few else COLORS[0]
                axes.plot(value.y, row, "o", color=COLORS[0], markerfacecolor=face, markersize=6, label=series.name)
        axes.set_title("\n".join(text), fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(heading)
    figure.supxlabel(chart.x_label, fontsize=10)
    return figure


def _panel_per_series(part: SubFigure, chart: Chart) -> None:
    count = len(chart.series)
    panels = part.subplots(math.ceil(count / PANELS), PANELS, sharex=True, sharey=True, squeeze=False).flat
    for place, (axes, series) in enumerate(zip(panels, chart.series, strict=False)):
        for other in chart.series:
            if other is not series:
                axes.plot(*_columns(other.values), color="#BBBBBB", linewidth=0.8)
        _line(axes, series, {"color": COLORS[0], "marker": "o", "markersize": 2})
        axes.set_title(textwrap.fill(series.name, width=24), fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.tick_params(labelbottom=place >= count - PANELS)  # the lowest panel of each column
    for axes in panels[count:]:
        axes.set_axis_off()
    panels[0].set_ylim(bottom=_bottom(chart))
    part.supylabel(f"{chart.title}, {chart.y_label}", fontsize=10)
    part.supxlabel(chart.x_label, fontsize=10)


def _bottom(chart: Chart) -> float | None:
    """Where the vertical axis begins: at 0, or below the lowest value."""
    return 0.0 if chart.lowest == 0 else None


def _columns(values: Sequence[Value]) -> tuple[list[float], list[float]]:
    return [value.x for value in values], [value.y for value in values]


# Okabe & Ito's palette, safe for color-blind readers, without its yellow: too pale for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
assert len(COLORS) == MOST_LINES
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


def line_style(style: int) -> dict[str, Any]:
    """Color, marker and dashes of a series; the combination repeats after 56."""
    return {
        "color": COLORS[style % len(COLORS)],
        "marker": MARKERS[style % len(MARKERS)],
        "linestyle": LINES[style % len(LINES)],
    }


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The style of each of these series."""
    return {name: line_style(style) for style, name in enumerate(names)}


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
