"""Attention as heat maps: a sentence pair in one or several arms, and every layer and head of a pair.

A source that is not text is drawn as a picture: above the weights, whose columns it shares, or below a fog that the
weights lift from it.

Figures are laid out in inches, from the measured lengths of their words, so that nothing is cut, and all cells have one
size.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seq2seq_attn.report.figures import Picture, drawing
from seq2seq_attn.results.attention import AttentionMap

WORD, TOKEN, NAME, NUMBER = 9, 6, 11, 10  # points: of words, of tokens in small maps, of names and titles, of the rest
EDGE = 0.1  # inches, between things
GOLD = "#D55E00"
WEIGHT = "attention weight"


class Space(NamedTuple):
    """Inches of the parts of a grid of panels."""

    panel: tuple[float, float]  # width and height of the cells
    left: float  # for the labels of rows, once
    top: float  # for the labels of columns, once
    bottom: float  # for what stands below, once
    between: tuple[float, float]  # panels in a row, panels in a column


def attention_figure(maps: Sequence[AttentionMap]) -> Figure:
    """Heat maps of attention weights, one panel per map (Bahdanau et al., 2015, Figure 3).

    Source words are columns, target words are rows; darker cells have larger weights (0 to 1). Gold links are outlined.
    Several maps should show the same source sentence in different arms.
    """
    is_long = max(len(shown.source) for shown in maps) > 8
    cell = 0.22 if is_long else 0.35  # inches
    columns = min(len(maps), 2 if is_long else 4)
    with drawing(text for shown in maps for text in (shown.arm, *shown.source, *shown.target)):
        width = cell * max(len(shown.source) for shown in maps)
        names = [_wrapped(shown.arm, max(width, 1.7)) for shown in maps]
        lines = [line for name in names for line in name.splitlines()]
        left = _longest((word for shown in maps for word in shown.target), WORD) + EDGE
        top = _longest((word for shown in maps for word in shown.source), WORD) + EDGE
        bottom = _height(max(names, key=lambda name: name.count("\n"))) + EDGE
        space = Space(
            panel=(max(width, _longest(lines, NAME)), cell * max(len(shown.target) for shown in maps)),
            left=left,
            top=top,
            bottom=bottom,
            between=(left + EDGE, bottom + top + EDGE),
        )
        figure, panels, bar = _grid(math.ceil(len(maps) / columns), columns, space, _caption(maps))
        for axes, shown, name in zip(panels.flat, maps, names, strict=False):
            image = _heat_map(axes, cell, np.array(shown.weights), shown.source, shown.target, WORD)
            axes.set_xlabel(name, fontsize=NAME)
            _outline(axes, shown.gold or (), 1.2)
        for axes in panels.flat[len(maps) :]:
            axes.set_axis_off()
        _color_bar(figure, image, bar)
    return figure


def heads_figure(
    layers: Sequence[NDArray[Any]],
    columns: Sequence[str],
    rows: Sequence[str],
    title: str,
    gold: Iterable[tuple[int, int]] = (),
) -> Figure:
    """A grid of heat maps of the weights `layers[l][h]` (rows, columns): one row per layer, one column per head.

    The tokens stand at the left and at the top of the grid; darker cells have larger weights (0 to 1). The cells of
    `gold`, (column, row), are outlined.
    """
    heads, is_one = max(map(len, layers)), len(layers) == len(layers[0]) == 1
    size, cell = (WORD, 0.22 if len(columns) > 8 else 0.35) if is_one else (TOKEN, 0.1)  # points; inches, for a line
    cell = max(cell, 0.7 / max(len(columns), len(rows)))
    outlined = list(gold)
    title += "\n(outlined: gold links)" if outlined else ""
    with drawing([title, *columns, *rows]):
        name = 0.0 if is_one else _longest([f"head {heads}", f"layer {len(layers)}"], NUMBER)
        number = EDGE if is_one else 0.3  # inches for the number of a layer or head
        space = Space(
            panel=(max(cell * len(columns), name), max(cell * len(rows), name)),
            left=_longest(rows, size) + number,
            top=_longest(columns, size) + number,
            bottom=EDGE,
            between=(0.15, 0.15),
        )
        figure, panels, bar = _grid(len(layers), heads, space, title)
        for axes in panels.flat:
            axes.set_axis_off()
        for layer, weights in enumerate(layers):
            for head, matrix in enumerate(weights):
                axes = panels[layer, head]
                axes.set_axis_on()
                image = _heat_map(axes, cell, matrix, columns if layer == 0 else (), rows if head == 0 else (), size)
                axes.tick_params(pad=1)
                _outline(axes, outlined, 1.2 if is_one else 0.6)
            if not is_one:
                panels[layer, 0].set_ylabel(f"layer {layer}", fontsize=NUMBER)
        for head, axes in enumerate(() if is_one else panels[0]):
            axes.set_title(f"head {head}", fontsize=NUMBER)
        _color_bar(figure, image, bar)
    return figure


def seen_figure(
    layers: Sequence[NDArray[Any]],
    picture: NDArray[Any],
    seconds: float | None,
    grid: int,
    rows: Sequence[str],
    title: str,
) -> Figure:
    """The weights `layers[l][h]` (rows, S) on a source that is a picture, whose states are a grid of `grid` rows.

    The states of a sequence are columns of heat maps, one row per layer and one column per head, with the picture above
    them; the axis is in seconds if they are known. A grid is shown once for each target token and head: the picture is
    clear where the weight is the largest of the step, and in fog where it is 0 (after Xu et al. 2015, Figure 3).
    """
    with drawing([title, *rows]):
        if grid > 1:
            return _in_fog(layers, picture, grid, rows, title)
        return _below_picture(layers, picture, seconds, rows, title)


def _below_picture(
    layers: Sequence[NDArray[Any]], picture: NDArray[Any], seconds: float | None, rows: Sequence[str], title: str
) -> Figure:
    heads, is_one = max(map(len, layers)), len(layers) == len(layers[0]) == 1
    size, cell, width = (WORD, 0.22, 6.4) if is_one else (TOKEN, 0.11, 2.4)
    height = min(max(width * picture.shape[0] / picture.shape[1], 0.4), 1.6)
    name = 0.0 if is_one else _longest([f"layer {len(layers)}"], NUMBER)
    number = EDGE if is_one else 0.3
    space = Space(
        panel=(width, max(cell * len(rows), name)),
        left=_longest(rows, size) + number,
        top=height + EDGE / 2 + (0.0 if is_one else _height("")),
        bottom=0.5,
        between=(0.3, 0.15),
    )
    figure, panels, bar = _grid(len(layers), heads, space, title)
    most = max(float(layer.max()) for layer in layers)  # of many states, each has little weight
    length = seconds or picture.shape[1]
    for axes in panels.flat:
        axes.set_axis_off()
    for (layer, head), matrix in _numbered(layers):
        axes = panels[layer, head]
        axes.set_axis_on()
        image = axes.imshow(
            matrix,
            cmap="Blues",
            vmin=0,
            vmax=most,
            interpolation="none",
            aspect="auto",
            extent=(0, length, len(rows), 0),
        )
        axes.grid(visible=False)
        axes.spines[:].set(visible=True, color="#BBBBBB")
        axes.set_yticks(np.arange(len(rows)) + 0.5, rows if head == 0 else [""] * len(rows), fontsize=size)
        axes.tick_params(axis="y", length=0, pad=1 if size == TOKEN else 3)
        if layer == len(layers) - 1:
            axes.set_xticks([tick for tick in MaxNLocator(8 if is_one else 4).tick_values(0, length) if tick <= length])
            axes.set_xlabel("position" if seconds is None else "seconds", fontsize=NUMBER)
        else:
            axes.tick_params(axis="x", length=0, labelbottom=False)
        if layer == 0:
            box = axes.get_position()
            up, gap = height / figure.bbox_inches.height, EDGE / 2 / figure.bbox_inches.height
            above = figure.add_axes((box.x0, box.y1 + gap, box.width, up))
            _show(above, picture, (0, length, 0, 1))
            above.set_title("" if is_one else f"head {head}", fontsize=NUMBER)
        if head == 0 and not is_one:
            axes.set_ylabel(f"layer {layer}", fontsize=NUMBER)
    _color_bar(figure, image, bar, most)
    return figure


FOG = (0.49, 0.53, 0.58)
DENSITY = 0.85  # of the fog where a weight is 0


def _in_fog(
    layers: Sequence[NDArray[Any]], picture: NDArray[Any], grid: int, rows: Sequence[str], title: str
) -> Figure:
    heads, is_one = list(_numbered(layers)), len(layers) == len(layers[0]) == 1
    width = min(max(math.sqrt(1.4 * picture.shape[1] / picture.shape[0]), 0.7), 4)
    columns = min(len(rows), max(1, int(8 / width)))
    lines = math.ceil(len(rows) / columns)
    names = [_wrapped(row, width) for row in rows]
    below = max(map(_height, names)) + EDGE
    labels = [f"layer {layer}, head {head}" for (layer, head), _ in heads]
    space = Space(
        panel=(width, width * picture.shape[0] / picture.shape[1]),
        left=0.0 if is_one else _longest(labels, NUMBER) + EDGE,
        top=0.0,
        bottom=below,
        between=(0.12, below),
    )
    figure, panels, bar = _grid(len(heads) * lines, columns, space, title, bar=0)
    bar.remove()
    for axes in panels.flat:
        axes.set_axis_off()
    for number, (label, (_, weights)) in enumerate(zip(labels, heads, strict=True)):
        own = panels[number * lines : (number + 1) * lines].flat
        for axes, row, name in zip(own, weights.reshape(len(rows), grid, -1), names, strict=False):
            extent = (0, row.shape[1], row.shape[0], 0)
            _show(axes, picture, extent)
            fog = np.empty((*row.shape, 4))
            fog[..., :3] = FOG
            fog[..., 3] = DENSITY * (1 - row / (row.max() or 1))
            axes.imshow(fog, interpolation="nearest", aspect="auto", extent=extent)
            axes.set_xlabel(name, fontsize=WORD)
        if not is_one:
            own[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=NUMBER)
    return figure


def _numbered(layers: Sequence[NDArray[Any]]) -> Iterator[tuple[tuple[int, int], NDArray[Any]]]:
    """Each matrix with the numbers of its layer and head."""
    return (((number, head), matrix) for number, layer in enumerate(layers) for head, matrix in enumerate(layer))


def _show(axes: Axes, picture: NDArray[Any], extent: tuple[float, float, float, float]) -> None:
    """The picture of a source, without ticks."""
    axes.set_axis_on()
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="auto", extent=extent)
    axes.set(xticks=(), yticks=())
    axes.grid(visible=False)
    axes.spines[:].set(visible=True, color="#BBBBBB")


def _outline(axes: Axes, cells: Iterable[tuple[int, int]], width: float) -> None:
    """Outlines the cells (column, row) of a heat map."""
    for column, row in cells:
        box = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=GOLD, linewidth=width)
        axes.add_patch(box).set(clip_on=False, zorder=3)


BAR = 0.75  # inches: the color bar, its numbers and its label


def _grid(rows: int, columns: int, space: Space, title: str, bar: float = BAR) -> tuple[Picture, NDArray[Any], Axes]:
    """A figure with a title, its panels (rows, columns), and at their right the axes of a color bar with its label."""
    across, down = (
        count * size + (count - 1) * gap
        for count, size, gap in zip((columns, rows), space.panel, space.between, strict=True)
    )
    length = max(0.7 * down, _longest([WEIGHT], NUMBER))
    above = _height(title) + 2 * EDGE
    content = space.left + across + 2 * EDGE + bar
    width = max(content, _longest(title.splitlines(), NAME)) + 2 * EDGE
    height = above + max(space.top + down + space.bottom, length) + EDGE
    figure = Picture(figsize=(width, height))
    figure.suptitle(title, y=1 - EDGE / height, fontsize=NAME)

    def axes(left: float, top: float, size: tuple[float, float]) -> Axes:
        return figure.add_axes((left / width, 1 - (top + size[1]) / height, size[0] / width, size[1] / height))

    start = (width - content) / 2 + space.left
    panels = np.empty((rows, columns), dtype=object)
    for row, column in np.ndindex(rows, columns):
        left = start + column * (space.panel[0] + space.between[0])
        panels[row, column] = axes(left, above + space.top + row * (space.panel[1] + space.between[1]), space.panel)
    middle = above + space.top + down / 2
    top = min(max(middle - length / 2, above), height - EDGE - length)
    return figure, panels, axes(start + across + 2 * EDGE, top, (0.08, length))


def _heat_map(
    axes: Axes, cell: float, weights: NDArray[Any], columns: Sequence[str], rows: Sequence[str], size: float
) -> AxesImage:
    """The weights (rows, columns) as shades of blue from 0 to 1, with the labels of columns above them.

    The axes shrink to cells of this many inches, at the middle of the top of their panel.
    """
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, interpolation="none")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set(visible=True, color="#BBBBBB")
    (down, across), panel = weights.shape, axes.get_position()
    width, height = cell * np.array([across, down]) * axes.figure.dpi / axes.figure.bbox.size
    axes.set_position(((panel.x0 + panel.x1 - width) / 2, panel.y1 - height, width, height))
    axes.set_xticks(range(across), columns, rotation=90, fontsize=size)
    axes.set_yticks(range(down), rows, fontsize=size)
    return image


def _color_bar(figure: Figure, image: AxesImage, axes: Axes, most: float = 1.0) -> None:
    digits = None if most == 1 else "%.2g"
    figure.colorbar(image, cax=axes, ticks=[0, most / 2, most], format=digits).set_label(WEIGHT, fontsize=NUMBER)


def _caption(maps: Sequence[AttentionMap]) -> str:
    caption = "Attention of each target word (row) over the source"
    return f"{caption}\n(outlined: gold links)" if any(shown.gold for shown in maps) else caption


def _longest(texts: Iterable[str], size: float) -> float:
    """The length in inches of the longest of these lines, as drawn."""
    return max((_length(text, size, tuple(matplotlib.rcParams["font.family"])) for text in texts), default=0) / 72


@lru_cache(maxsize=10_000)  # most words are in several figures
def _length(text: str, size: float, _families: tuple[str, ...]) -> float:
    """The length in points in the fonts of `drawing`."""
    length: float = TextPath((0, 0), text, size=size).get_extents().width
    return length


def _wrapped(text: str, width: float) -> str:
    """The text in lines that are about as wide as this, in inches."""
    return textwrap.fill(text, width=max(1, round(len(text) * width / max(_longest([text], NAME), width))))


def _height(text: str) -> float:
    """The height in inches of the lines of a name or title."""
    return 1.2 * NAME * (text.count("\n") + 1) / 72
