"""The attention of every layer and head of a sentence pair: a grid of small heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from seq2seq_attn.report.figures import Picture, drawing, heat_map

CELL = 0.1  # inches, of one weight: as much as a line of the tokens' type needs
TYPE = 6  # points, of the tokens
SMALLEST = 0.7  # inches, of the longer side of a heat map


def heads_figure(layers: Sequence[NDArray[Any]], columns: Sequence[str], rows: Sequence[str], title: str) -> Figure:
    """A grid of heat maps of the weights `layers[l][h]` (rows, columns): one row per layer, one column per head.

    The tokens stand at the left and at the top of the grid; darker cells have larger weights (0 to 1).
    """
    heads = max(map(len, layers))
    cell = max(CELL, SMALLEST / max(len(columns), len(rows)))
    width, height = cell * len(columns) + 0.15, cell * len(rows) + 0.15
    with drawing([title, *columns, *rows]):
        figure = Picture(figsize=(heads * width + 1.6, len(layers) * height + 1.2), layout="compressed")
        panels = figure.subplots(len(layers), heads, squeeze=False)
        for axes in panels.flat:
            axes.set_axis_off()
        for layer, weights in enumerate(layers):
            for head, matrix in enumerate(weights):
                axes = panels[layer, head]
                axes.set_axis_on()
                image = heat_map(axes, matrix)
                axes.set_xticks(range(len(columns)), columns if layer == 0 else (), rotation=90, fontsize=TYPE)
                axes.set_yticks(range(len(rows)), rows if head == 0 else (), fontsize=TYPE)
                axes.tick_params(pad=1)
            panels[layer, 0].set_ylabel(f"layer {layer}")
        for head, axes in enumerate(panels[0]):
            axes.set_title(f"head {head}", fontsize=10)
        figure.colorbar(image, ax=panels, label="attention weight", shrink=0.5, aspect=25, ticks=[0, 0.5, 1])
        figure.suptitle(title)
    return figure
