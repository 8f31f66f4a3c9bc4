"""One look for all pictures, and their bytes as PNG and SVG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2seq_attn.report.pictures.fonts import families

# Okabe & Ito's palette, which colour-blind readers can tell apart, without its yellow: too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", (0, (6, 1.5)), (0, (6, 1.5, 1.5, 1.5)), (0, (2.5, 1)))  # dashes and gaps, in line widths

SETTINGS = {
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
    "svg.fonttype": "path",  # letters as shapes: the reader's machine may lack the font
    "svg.hashsalt": "seq2seq_attn",  # the same picture has the same bytes
}


@contextmanager
def drawing(texts: Iterable[str]) -> Iterator[None]:
    """The look, in fonts that have the glyphs of these texts, while figures are made inside."""
    with matplotlib.rc_context({**SETTINGS, "font.family": families(texts)}):
        yield


def line_styles(arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of each arm's lines: no two of 56 arms share all three."""
    return {
        arm: {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": LINES[index % len(LINES)],
        }
        for index, arm in enumerate(arms)
    }


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for the figure, outside of the axes, so that it hides no line."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, handlelength=4)


def render(figure: Figure, kind: str) -> bytes:
    """The picture as "png" or "svg"; a figure made and rendered alike has the same bytes."""
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # Once a character would be too often: `fonts` has said it in one line.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, metadata=metadata, bbox_inches="tight")
    return buffer.getvalue()
