"""The fonts of pictures: matplotlib's, the package's, installed ones, or a warning."""

import gzip
import warnings
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.ttLib.tables._g_l_y_f import Glyph
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from seq2seq_attn.report import font_choice
from seq2seq_attn.report.figures import render
from seq2seq_attn.report.font_choice import font_families
from seq2seq_attn.report.heat_maps import attention_figure
from seq2seq_attn.results.attention import AttentionMap

CORPUS = Path(__file__).parents[2] / "data" / "tom-and-jerry"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch):
    """A machine with no fonts but those of a matplotlib that shapes text; a list of files to install more."""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    files = []
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(file) for file in files])
    monkeypatch.setattr(font_choice, "SHAPES", True)
    font_choice._warn.cache_clear()
    return files


def font_file(folder, family, characters):
    """A font whose glyphs are blank."""
    codes = {ord(character): f"u{ord(character):X}" for character in characters}
    names = [".notdef", *codes.values()]
    font = FontBuilder(1000)
    font.setupGlyphOrder(names)
    font.setupCharacterMap(codes)
    font.setupGlyf({name: Glyph() for name in names})
    font.setupHorizontalMetrics(dict.fromkeys(names, (500, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": family, "styleName": "Regular"})
    font.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    font.setupPost()
    path = folder / f"{family}.ttf"
    font.save(path)
    return path


def picture(*words):
    return attention_figure([AttentionMap("a", words, ("Tom",), ((1 / len(words),) * len(words),), None)])


def test_the_package_s_font_has_every_character_of_the_embedded_corpus_and_its_license(capsys):
    lines = gzip.decompress((CORPUS / "train.zh.gz").read_bytes()).decode()
    lines += "".join((CORPUS / f"{part}.zh").read_text(encoding="utf-8") for part in ("validation", "test"))
    first, second = font_families(["Tom", lines])
    assert first == "DejaVu Sans"
    glyphs = FT2Font(font_manager.findfont(second, fallback_to_default=False)).get_charmap()
    assert set(map(ord, lines)) - set(map(ord, " \n")) == set(glyphs)
    assert capsys.readouterr().err == ""
    assert font_choice.SUBSET.stat().st_size < 100_000
    assert "SIL OPEN FONT LICENSE Version 1.1" in (font_choice.SUBSET.parent / "OFL.txt").read_text(encoding="utf-8")


def test_text_that_matplotlib_s_own_font_has_needs_no_other(capsys):
    assert font_families(["Ein Mann läuft", "à l'été – où", "▁the", "ברוכים", "❤\ufe0f", "a\u200db"]) == ["DejaVu Sans"]
    assert capsys.readouterr().err == ""


def test_each_script_is_drawn_with_an_installed_font_that_has_most_of_it(bare_machine, tmp_path, capsys):
    bare_machine += [
        font_file(tmp_path, "Some Thai Sans", "กำ"),
        font_file(tmp_path, "All Thai", "กำลังอ่าน"),
        font_file(tmp_path, "Noto Sans Ethiopic", "እኔ።"),
    ]
    assert font_families(["กำลัง", "እኔ", "።", "x"]) == ["DejaVu Sans", "Noto Sans Ethiopic", "All Thai"]
    assert capsys.readouterr().err == ""


def test_a_script_of_which_dejavu_lacks_letters_is_drawn_with_one_font_so_that_its_letters_join(bare_machine, tmp_path):
    bare_machine += [font_file(tmp_path, "Urdu", "ہےر"), font_file(tmp_path, "One Mark", "\u06ed")]
    assert font_families(["رہے"]) == ["Urdu", "DejaVu Sans"]
    assert font_families(["سلام", "\u06ed"]) == ["DejaVu Sans", "One Mark"]


def test_han_characters_have_the_shapes_of_the_language_that_they_stand_in(bare_machine, tmp_path):
    bare_machine += [font_file(tmp_path, f"Noto Sans CJK {region}", "跳舞踊り한") for region in ("JP", "KR", "SC")]
    assert font_families(["跳舞"]) == ["DejaVu Sans", "Noto Sans CJK SC"]
    assert font_families(["踊り"]) == ["DejaVu Sans", "Noto Sans CJK JP"]
    assert font_families(["한", "舞"]) == ["DejaVu Sans", "Noto Sans CJK KR"]


def test_fonts_without_outlines_or_that_were_removed_are_not_chosen(bare_machine, tmp_path, capsys):
    (tmp_path / "NotoColorEmoji.ttf").write_bytes(b"\0\1\0\0 bitmaps")
    bare_machine += [tmp_path / "NotoColorEmoji.ttf", font_file(tmp_path, "Thai", "ก")]
    assert font_families(["ก"]) == ["DejaVu Sans", "Thai"]
    (tmp_path / "Thai.ttf").unlink()
    assert font_families(["ก"]) == ["DejaVu Sans"]
    assert "Thai" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named", "font"),
    [
        (("汤姆", "跳舞"), "Han", "fonts-noto-cjk"),
        (("हिन्दी", "भाषा"), "Devanagari", "Noto Sans Devanagari"),
        (("மொழி",), "Tamil", "Noto Sans Tamil"),
        (("🚀", "😀"), "🚀", "fonts-symbola"),
        (("ᐁᢰ",), "Canadian Aboriginal", "Noto Sans Canadian Aboriginal"),
        (("\uf8d0",), "\uf8d0", "the font that defines them"),
        (("भाषा 🚀 ภาษา",), "Devanagari, Thai, 🚀", "Noto Sans Thai"),
    ],
)
def test_one_warning_names_what_no_font_has_and_what_to_install(words, named, font, capsys):
    for _ in range(2):
        font_families(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"no font that can be drawn has {named};" in line
    assert font in line.partition("install")[2]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_without_a_font_pictures_are_drawn_without_the_warnings_of_matplotlib(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib would warn about each character
        assert render(picture("跳舞", "भाषा", "🚀"), kind)


def test_a_matplotlib_that_does_not_shape_text_is_named(monkeypatch, capsys):
    monkeypatch.setattr(font_choice, "SHAPES", False)
    font_families(["سلام", "שלום", "Tom", "汤姆"])
    assert capsys.readouterr().err.count("the letters of Arabic, Hebrew one by one") == 1
    font_families(["Tom", "汤姆", "éte"])
    assert capsys.readouterr().err == ""
