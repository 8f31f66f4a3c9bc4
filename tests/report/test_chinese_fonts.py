"""The font for Chinese characters: the package's, an installed one, or a warning."""

import gzip
import warnings
from pathlib import Path

import pytest
from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FT2Font

from seq2seq_attn.report import figures as fonts
from seq2seq_attn.report.figures import attention_figure, render
from seq2seq_attn.results.observations import AttentionMap

CORPUS = Path(__file__).parents[2] / "data" / "tom-and-jerry"


@pytest.fixture(autouse=True)
def _forget():
    fonts.installed_family.cache_clear()
    yield
    fonts.installed_family.cache_clear()


@pytest.fixture
def bare_machine(monkeypatch):
    """A machine with no fonts but matplotlib's."""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    fonts.subset_family.cache_clear()
    return own


def test_the_package_s_font_has_every_character_of_the_embedded_corpus_and_its_licence(bare_machine, capsys):
    lines = gzip.decompress((CORPUS / "train.zh.gz").read_bytes()).decode()
    lines += "".join((CORPUS / f"{part}.zh").read_text(encoding="utf-8") for part in ("validation", "test"))
    first, *_ = fonts.font_families(["Tom", lines])
    glyphs = FT2Font(font_manager.findfont(first, fallback_to_default=False)).get_charmap()
    assert set(map(ord, lines)) - set(map(ord, " \n")) == set(glyphs)
    assert capsys.readouterr().err == ""
    assert fonts.SUBSET.stat().st_size < 100_000
    assert "SIL OPEN FONT LICENSE Version 1.1" in (fonts.SUBSET.parent / "OFL.txt").read_text(encoding="utf-8")


def test_text_without_chinese_needs_no_chinese_font(bare_machine, capsys):
    assert fonts.font_families(["Ein Mann läuft", "à l'été – où"]) == ["DejaVu Sans"]
    assert capsys.readouterr().err == ""


def test_other_characters_are_drawn_with_an_installed_font(bare_machine, capsys):
    bare_machine.append(FontEntry(fname="/fonts/simhei.ttf", name="SimHei"))
    assert fonts.font_families(["跳舞"]) == ["SimHei", "DejaVu Sans"]
    assert capsys.readouterr().err == ""


def test_without_a_font_figures_are_drawn_and_one_warning_says_what_to_install(bare_machine, capsys):
    shown = AttentionMap("注意力", ("Tom", "chases"), ("汤姆",), ((0.75, 0.25),), None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib would warn about each character
        for kind in ("png", "svg"):
            assert render(attention_figure([shown]), kind)
    assert attention_figure([shown])
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "fonts-noto-cjk" in message
