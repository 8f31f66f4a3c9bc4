"""A font with Chinese characters: the shipped one, the machine's, or a warning."""

import importlib.util
import warnings

import pytest
from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FT2Font

from seq2seq_attn.report import figures as fonts
from seq2seq_attn.report.figures import attention_figure, render
from seq2seq_attn.results.observations import AttentionMap


@pytest.fixture(autouse=True)
def _forget():
    fonts.chinese_family.cache_clear()
    yield
    fonts.chinese_family.cache_clear()


@pytest.fixture
def bare_machine(monkeypatch):
    """No zhplot, and of fonts only matplotlib's own."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "zhplot" else find_spec(name, *rest)
    )
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    return own


def test_the_shipped_font_has_the_characters(capsys):
    first, *_ = fonts.font_families(["Tom", "汤姆"])
    glyphs = FT2Font(font_manager.findfont(first, fallback_to_default=False)).get_charmap()
    assert all(ord(character) in glyphs for character in "汤姆追逐杰瑞，。Tom±")
    assert capsys.readouterr().err == ""


def test_text_without_chinese_needs_no_chinese_font(bare_machine, capsys):
    assert fonts.font_families(["Ein Mann läuft", "à l'été – où"]) == ["DejaVu Sans"]
    assert capsys.readouterr().err == ""


def test_without_the_shipped_font_one_of_the_machine_is_taken(bare_machine, capsys):
    bare_machine.append(FontEntry(fname="/fonts/simhei.ttf", name="SimHei"))
    assert fonts.font_families(["汤姆"]) == ["SimHei", "DejaVu Sans"]
    assert capsys.readouterr().err == ""


def test_without_any_a_picture_is_still_made_and_one_line_says_what_to_install(bare_machine, capsys):
    shown = AttentionMap("注意力", ("Tom", "chases"), ("汤姆",), ((0.75, 0.25),), None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib would warn of each character
        for kind in ("png", "svg"):
            assert render(attention_figure([shown]), kind)
    assert attention_figure([shown])
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "pip install zhplot" in message
    assert "fonts-noto-cjk" in message
