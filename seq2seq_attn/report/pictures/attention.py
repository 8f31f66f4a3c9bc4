"""Attention weights as heat maps (Bahdanau et al., 2015, Figure 3)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from rich.cells import cell_len

from seq2seq_attn.report.observations import AttentionMap
from seq2seq_attn.report.pictures.style import drawing

CELL = 0.22  # inches: a row of 9-point letters
LETTER = 0.08  # inches, half a Chinese character
GOLD = "#D55E00"


def heatmap(maps: Sequence[AttentionMap]) -> Figure:
    """A panel a map: source words on top, a row a target word, the darker the larger the weight (0 to 1).

    Gold links are outlined. Several maps are meant to be of the same source sentence, in different arms.
    """
    columns = min(len(maps), 2 if len(maps[0].source) > 12 else 4)
    rows = math.ceil(len(maps) / columns)
    width = max(3.0, max(CELL * len(m.source) + LETTER * _longest(m.target) for m in maps))
    height = max(CELL * len(m.target) + LETTER * _longest(m.source) + 0.6 for m in maps)
    with drawing(text for m in maps for text in (m.arm, *m.source, *m.target)):
        figure = Figure(figsize=(columns * width + 1, rows * height + 0.6), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for axes, shown in zip(panels.flat, maps, strict=False):
            image = _panel(axes, shown, width)
        for axes in panels.flat[len(maps) :]:
            axes.set_axis_off()
        figure.colorbar(image, ax=panels, label="attention weight", fraction=0.03, aspect=30)
        figure.suptitle(textwrap.fill(_caption(maps), width=int(figure.get_figwidth() / 0.085)))
    return figure


def _panel(axes: Axes, shown: AttentionMap, width: float) -> AxesImage:
    image = axes.imshow(np.array(shown.weights), cmap="Blues", vmin=0, vmax=1, interpolation="none")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(shown.source)), shown.source, rotation=90, fontsize=9)
    axes.set_yticks(range(len(shown.target)), shown.target, fontsize=9)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.set_anchor("N")
    for source, target in shown.gold or ():
        corner = source - 0.5, target - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=GOLD, linewidth=1.2))
    axes.set_xlabel(textwrap.fill(shown.arm, width=int(width / 0.085)), fontweight="bold")
    return image


def _caption(maps: Sequence[AttentionMap]) -> str:
    caption = "Where each target word (row) looked among the source words (columns)"
    return f"{caption}; outlined: gold links" if any(m.gold for m in maps) else caption


def _longest(words: Sequence[str]) -> int:
    return max(cell_len(word) for word in words)
