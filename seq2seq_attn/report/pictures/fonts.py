"""Fonts that show Chinese."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from matplotlib import font_manager

KNOWN = (
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


def families(texts: Iterable[str]) -> list[str]:
    """The font families to draw these texts with, the first that has a glyph wins."""
    needs_chinese = any(character >= "\u2e80" for text in texts for character in text)
    chinese = chinese_family() if needs_chinese else None
    return ["DejaVu Sans"] if chinese is None else [chinese, "DejaVu Sans"]


@functools.cache
def chinese_family() -> str | None:
    """The font that the package zhplot ships, or else one that the machine has.

    None if there is neither; that is said once, in one line on stderr.
    """
    shipped = _shipped_font()
    if shipped is not None:
        font_manager.fontManager.addfont(shipped)
        return font_manager.FontProperties(fname=shipped).get_name()
    installed = {font.name for font in font_manager.fontManager.ttflist}
    found = next((family for family in KNOWN if family in installed), None)
    if found is None:
        print(
            "warning: no font with Chinese characters was found, pictures show boxes in their place; "
            "install one: pip install zhplot, or the system's package fonts-noto-cjk",
            file=sys.stderr,
        )
    return found


def _shipped_font() -> Path | None:
    # Located, not imported: an import changes matplotlib's settings.
    package = importlib.util.find_spec("zhplot")
    folders = (package and package.submodule_search_locations) or ()
    fonts = (Path(folder) / "fonts" / "NotoSansSC-Regular.ttf" for folder in folders)
    return next((font for font in fonts if font.is_file()), None)
