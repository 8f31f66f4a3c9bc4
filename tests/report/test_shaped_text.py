"""Letters in pictures are joined and ordered, from right to left where they run so."""

import pytest

from seq2seq_attn.report.figures import render
from seq2seq_attn.report.font_choice import SHAPES
from seq2seq_attn.report.heat_maps import attention_figure
from seq2seq_attn.results.attention import AttentionMap

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
