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

from seq2seq_attn.report.pictures.style import drawing
from seq2seq_attn.results.observations import AttentionMap

LETTER = 0.07  # inches, of 9-point type; a Chinese character is as wide as two
NAME_LETTER = 0.085  # inches, of 11-point type
GOLD = "#D55E00"


def heatmap(maps: Sequence[AttentionMap]) -> Figure:
    """A panel a map: source words on top, a row a target word, the darker the larger the weight (0 to 1).

    Gold links are outlined. Several maps are meant to be of the same source sentence, in different arms.
    """
    is_long = max(len(shown.source) for shown in maps) > 8
    cell = 0.22 if is_long else 0.35  # inches
    columns = min(len(maps), 2 if is_long else 4)
    rows = math.ceil(len(maps) / columns)
    width = max(cell * len(shown.source) + LETTER * _longest(shown.target) for shown in maps) + 0.2
    height = max(cell * len(shown.target) + LETTER * _longest(shown.source) for shown in maps) + 0.4
    with drawing(text for shown in maps for text in (shown.arm, *shown.source, *shown.target)):
        figure = Figure(figsize=(max(columns * width + 0.8, 4.5), rows * height + 0.5), layout="compressed")
        panels = figure.subplots(rows, columns, squeeze=False)
        for axes, shown in zip(panels.flat, maps, strict=False):
            image = _panel(axes, shown, letters=max(20, int(cell * len(shown.source) / NAME_LETTER)))
        for axes in panels.flat[len(maps) :]:
            axes.set_axis_off()
        figure.colorbar(image, ax=panels, label="attention weight", shrink=0.7, aspect=25, ticks=[0, 0.5, 1])
        figure.suptitle(_caption(maps))
    return figure


def _panel(axes: Axes, shown: AttentionMap, letters: int) -> AxesImage:
    image = axes.imshow(np.array(shown.weights), cmap="Blues", vmin=0, vmax=1, interpolation="none")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(shown.source)), shown.source, rotation=90, fontsize=9)
    axes.set_yticks(range(len(shown.target)), shown.target, fontsize=9)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set(visible=True, color="#BBBBBB")
    axes.set_anchor("N")
    axes.set_xlabel(textwrap.fill(shown.arm, width=letters), fontsize=11)
    for source, target in shown.gold or ():
        corner = source - 0.5, target - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=GOLD, linewidth=1.2, clip_on=False, zorder=3))
    return image


def _caption(maps: Sequence[AttentionMap]) -> str:
    caption = "Where each target word (row) looked in the source"
    return f"{caption}\n(outlined: gold links)" if any(shown.gold for shown in maps) else caption


def _longest(words: Sequence[str]) -> int:
    return max(cell_len(word) for word in words)
