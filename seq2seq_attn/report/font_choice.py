"""The fonts of pictures: DejaVu Sans, the package's Chinese font, and those of the system for what these two lack.

matplotlib takes each character from the first of the chosen families that has it. From 3.11 on it also shapes text: it
joins the letters of Arabic, puts the vowel signs of Hindi in their places, and draws Hebrew from right to left.
"""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category, name

import matplotlib
from fontTools.unicodedata import script, script_name
from matplotlib import font_manager, ft2font
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FT2Font

FIRST = "DejaVu Sans"  # comes with matplotlib
SUBSET = Path(__file__).parent / "fonts" / "NotoSansSC-Subset.ttf"  # the characters of the embedded corpus
SUBSET_FAMILY = "Noto Sans SC Subset"
SHAPES = hasattr(ft2font, "__libraqm_version__")

SHARED = ("Zinh", "Zyyy", "Zzzz")  # accents; punctuation and symbols; characters that Unicode does not define
HAN = "Hani"
# The Han characters of Japanese and Korean differ in shape from those of Chinese.
REGIONS = {"Hira": "JP", "Kana": "JP", "Hang": "KR"}
CHINESE = "SC"


def font_families(texts: Iterable[str]) -> list[str]:
    """The font families to draw these texts with, in order of preference for each character.

    One line on stderr names what no font has, or what the installed matplotlib cannot shape, once per process.
    """
    drawn = {character for text in texts for character in text if not _invisible(character)}
    if not SHAPES:
        _warn_of_shapes(drawn)
    covered = _covered(font_manager.findfont(FIRST), 0, drawn)
    if covered == drawn:
        return [FIRST]
    _register([str(SUBSET)])
    if covered | _covered(str(SUBSET), 0, drawn) == drawn:
        return [FIRST, SUBSET_FAMILY]
    return _installed_families(drawn)


def _installed_families(drawn: set[str]) -> list[str]:
    _register(font_manager.findSystemFonts())
    has: dict[str, set[str]] = {}
    for font in _preferred(font_manager.fontManager.ttflist):
        if font.name not in has:
            has[font.name] = _covered(font.fname, getattr(font, "index", 0), drawn)
    families, covered, boxes = [FIRST], has[FIRST], {}
    for system, characters in _by_script(drawn).items():
        share = {family: len(found & characters) for family, found in has.items()}
        region = REGIONS.get(system, CHINESE)
        while missing := characters - covered:
            having = [family for family in has if has[family] & missing]
            if not having:
                boxes[system] = missing
                break
            best = max(having, key=lambda family: (share[family], region in family.split()))
            # Letters join only within a font, so one that has more of the script comes before one that has some.
            first = system not in SHARED and share[best] > share[FIRST] > 0
            families.insert(families.index(FIRST) if first else len(families), best)
            covered = covered | has[best]
    if boxes:
        _warn_of_boxes(boxes)
    return families


def embeddable(texts: Iterable[str]) -> bool:
    """Whether a page with these texts needs a Chinese font, and the package's has all of their characters."""
    han = {character for text in texts for character in text if script(character) == HAN}
    return bool(han) and _covered(str(SUBSET), 0, han) == han


def _invisible(character: str) -> bool:
    """Whether nothing is drawn: spaces, controls such as joiners, and selectors of variants (of emoji, mostly)."""
    return category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp") or name(character, "").startswith("VARIATION SELECTOR")


def _by_script(characters: Iterable[str]) -> dict[str, set[str]]:
    """The characters of each script; Han after kana and Hangul, and those of no script last: many fonts have them."""
    systems = defaultdict(set)
    for character in characters:
        systems[script(character)].add(character)
    return {key: systems[key] for key in sorted(systems, key=lambda key: (key in SHARED, key == HAN, key))}


def _covered(path: str, index: int, characters: set[str]) -> set[str]:
    """The characters that a font file has; none, if the file is gone or has no outlines, such as Noto Color Emoji."""
    face: dict[str, Any] = {"face_index": index} if index else {}  # of a collection; matplotlib < 3.11 reads the first
    try:
        font = FT2Font(path, **face)
    except (OSError, RuntimeError):
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def _register(paths: Iterable[str]) -> None:
    """Adds fonts to matplotlib's list, which it keeps in a file: the package's, and those installed since then."""
    manager = font_manager.fontManager
    for path in sorted(set(paths) - {font.fname for font in manager.ttflist}):
        with suppress(OSError, RuntimeError):  # a file that matplotlib cannot draw
            manager.addfont(path)


def _preferred(fonts: Iterable[FontEntry]) -> list[FontEntry]:
    """The package's font first, then upright ones of normal weight, of sans-serif families, with short names."""

    def rank(font: FontEntry) -> tuple[bool, bool, int, bool, int, str]:
        weight = abs(int(font.weight) - 400)
        plain = "Sans" in font.name
        return font.fname != str(SUBSET), font.style != "normal", weight, not plain, len(font.name), font.name

    # A font of last resort has a box for every character.
    return sorted((font for font in fonts if "lastresort" not in font.name.replace(" ", "").lower()), key=rank)


def _warn_of_boxes(boxes: Mapping[str, set[str]]) -> None:
    what: list[str] = []
    fonts: dict[str, None] = {}  # in order, each once
    for system, characters in boxes.items():
        named = script_name(system)
        what.append(" ".join(sorted(characters)) if system in SHARED else named)
        if system == "Zzzz":
            font = "the font that defines them"
        elif system in SHARED:
            font = "Symbola (package fonts-symbola; color fonts cannot be drawn)"
        elif system in (HAN, "Bopo", *REGIONS):
            font = "Noto Sans CJK (package fonts-noto-cjk)"
        else:
            font = f"Noto Sans {named} (package fonts-noto-core)"
        fonts[font] = None
    _warn(f"no font that can be drawn has {', '.join(what)}; pictures show boxes instead; install {', '.join(fonts)}")


def _warn_of_shapes(drawn: Iterable[str]) -> None:
    marked = {each for each in drawn if bidirectional(each) in ("R", "AL") or category(each) in ("Mn", "Mc")}
    scripts = sorted({script_name(script(each)) for each in marked} - {"Inherited"})
    if scripts:
        _warn(
            f"matplotlib {matplotlib.__version__} draws the letters of {', '.join(scripts)} one by one, from left to "
            "right; matplotlib >= 3.11, which needs Python >= 3.11, joins and orders them"
        )


@functools.cache
def _warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)
