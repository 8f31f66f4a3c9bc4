"""Words in pictures have the letters that a browser shows: joined, ordered, from right to left where they run so."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from seq2seq_attn.report.figures import render
from seq2seq_attn.report.font_choice import SHAPES, font_families
from seq2seq_attn.report.heat_maps import attention_figure
from seq2seq_attn.results.attention import AttentionMap
from tests.chromium import browser  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(not SHAPES, reason="matplotlib shapes text from 3.11 on")

LEFT_TO_RIGHT, END = "\u202d", "\u202c"  # an override of the direction of letters


def picture(word):
    return attention_figure([AttentionMap("a", ("Tom",), (word,), ((1.0,),), None)])


def test_arabic_letters_have_their_joined_forms_from_right_to_left():
    # seen, lam with alef, meem: initial, final, isolated; drawn from the left: meem first
    forms = f"{LEFT_TO_RIGHT}\ufee1\ufefc\ufeb3{END}"
    unjoined = f"{LEFT_TO_RIGHT}\ufee1\ufe8d\ufedd\ufeb1{END}"
    word = render(picture("سلام"), "png")
    assert word == render(picture(forms), "png")
    assert word != render(picture(unjoined), "png")


def test_hebrew_is_not_mirrored_and_brackets_turn_with_it():
    assert render(picture("(שלום)"), "png") == render(picture(f"{LEFT_TO_RIGHT}(םולש){END}"), "png")
    assert render(picture("שלום"), "png") != render(picture(f"{LEFT_TO_RIGHT}שלום{END}"), "png")


def test_right_to_left_words_keep_the_order_of_the_sentence():
    source = ("הבית", "גדול")
    axes = attention_figure([AttentionMap("a", source, ("Tom",), ((0.5, 0.5),), None)]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(source)


WORDS = {
    "Arabic": "المكتبة",
    "Arabic with vowels": "كِتَابٌ",
    "Urdu": "ہے۔",
    "Hebrew": "(שלום),",
    "Devanagari": "क्षत्रिय",
    "Thai": "น้ำที่",
    "Tamil": "படிக்கிறேன்",
    "Ethiopic": "መጽሐፍ",
    "Bengali": "ক্রিয়া",
    "Khmer": "ខ្មែរ",
    "Myanmar": "မြန်မာ",
    "Han": "汤姆追逐杰瑞",
    "mixed": "a-שלום-2",
}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_a_word_looks_as_in_a_browser(word, browser, capsys):  # noqa: F811
    families = font_families([word])
    if capsys.readouterr().err:
        pytest.skip("no font for this word on this machine")
    files = [Path(font_manager.findfont(family, fallback_to_default=False)) for family in families]
    ours, theirs = _in_picture(word), _in_browser(word, files, browser)
    assert ours.shape == pytest.approx(theirs.shape, abs=4), "pixels, of more than 50"
    height, width = np.minimum(ours.shape, theirs.shape)
    ours, theirs = ours[:height, :width], theirs[:height, :width]
    # Edges differ by rounding: by 2 to 15 % of the ink. Letters that are not shaped differ by 35 to 80 %.
    assert np.abs(ours - theirs).sum() < 0.2 * (ours + theirs).sum()


def _in_picture(word):
    figure = picture(word)
    figure.set_dpi(800)  # so 9-point type has 100 pixels
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (label,) = figure.axes[0].get_yticklabels()
    box = label.get_window_extent()
    pixels = 1 - np.asarray(canvas.buffer_rgba())[..., :3].mean(axis=2) / 255
    bottom = len(pixels) - int(box.y0)
    return _ink(pixels[bottom - int(box.height) - 20 : bottom + 20, int(box.x0) - 20 : int(box.x1) + 5])


def _in_browser(word, files, browser):  # noqa: F811
    faces = "".join(
        f"@font-face {{font-family: f{number}; src: url(data:font/ttf;base64,{base64.b64encode(content).decode()})}}"
        for number, content in enumerate(file.read_bytes() for file in files)
    )
    names = ", ".join(f"f{number}" for number in range(len(files)))
    page = browser.new_page(viewport={"width": 1200, "height": 400})
    page.set_content(f"<style>{faces} p {{margin: 90px; font: 100px {names}}}</style><p><bdi>{word}</bdi></p>")
    page.evaluate("document.fonts.ready")
    shot = Image.open(io.BytesIO(page.screenshot())).convert("L")
    page.close()
    return _ink(1 - np.asarray(shot) / 255)


def _ink(pixels):
    rows, columns = (np.flatnonzero(pixels.max(axis=axis) > 0.3) for axis in (1, 0))
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
