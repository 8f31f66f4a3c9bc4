"""The common style of all figures, fonts with Chinese characters, and rendering as PNG and SVG.

Figures are plain `matplotlib.figure.Figure` objects; pyplot and matplotlib's global settings are left alone.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe & Ito's palette, safe for colour-blind readers, without its yellow: too pale for a line.
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
    "svg.fonttype": "path",  # text as shapes: the reader's machine may lack the font
    "svg.hashsalt": "seq2seq_attn",  # equal figures have equal bytes
}


@contextmanager
def drawing(texts: Iterable[str]) -> Iterator[None]:
    """A context in which figures get the common style, with fonts that have the glyphs of these texts."""
    with matplotlib.rc_context({**SETTINGS, "font.family": font_families(texts)}):
        yield


def line_styles(arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of each arm's lines; all three agree only after 56 arms."""
    return {
        arm: {
            "color": COLOURS[index % len(COLOURS)],
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
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # matplotlib warns once per character; `chinese_family` has already warned in one line.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, metadata=metadata, bbox_inches="tight")
    return buffer.getvalue()


CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Noto Sans CJK JP",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "SimHei",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)


def font_families(texts: Iterable[str]) -> list[str]:
    """The font families to draw these texts with, in order of preference for each glyph."""
    needs_chinese = any(character >= "\u2e80" for text in texts for character in text)
    chinese = chinese_family() if needs_chinese else None
    return ["DejaVu Sans"] if chinese is None else [chinese, "DejaVu Sans"]


@functools.cache
def chinese_family() -> str | None:
    """The font that the package zhplot ships, or else an installed one.

    None if there is neither, with one line of warning on stderr, once per process.
    """
    shipped = _shipped_font()
    if shipped is not None:
        font_manager.fontManager.addfont(shipped)
        return font_manager.FontProperties(fname=shipped).get_name()
    installed = {font.name for font in font_manager.fontManager.ttflist}
    found = next((family for family in CHINESE_FONTS if family in installed), None)
    if found is None:
        print(
            "warning: no font with Chinese characters was found, figures show boxes instead; "
            "install one: pip install zhplot, or the system's package fonts-noto-cjk",
            file=sys.stderr,
        )
    return found


def _shipped_font() -> Path | None:
    # Not imported: importing zhplot changes matplotlib's settings.
    package = importlib.util.find_spec("zhplot")
    folders = (package and package.submodule_search_locations) or ()
    fonts = (Path(folder) / "fonts" / "NotoSansSC-Regular.ttf" for folder in folders)
    return next((font for font in fonts if font.is_file()), None)
