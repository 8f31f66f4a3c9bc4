"""The sentences of a line, by rules."""

import pytest

from seq2seq_attn.corpora.sentences import joined, sentences


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["One.", "Two!", "Three?", "Four… five.", "6 is 5.5 or 6.5."]),
        ("en", ["Dr. Smith and J. R. Doe saw No. 5 at 3 p.m. today.", '"Why?"', "(He said so.)", "No.", "Well"]),
        ("en", ["Tom runs .", "Jerry sleeps ."]),
        ("de", ["Das sind z.B. 5 Hunde.", "Ähnlich ist es bei Dr. Maier."]),
        ("xx", ["Dr.", "Who?"]),  # no list of abbreviations
        ("en", ["no end within it. nor here"]),
    ],
)
def test_a_line_is_split_where_sentences_end(language, parts):
    assert sentences(" ".join(parts), language) == parts


def test_full_width_points_need_no_blank_after_them():
    assert sentences("他来了。“真的？”她说。 好", "zh") == ["他来了。", "“真的？”", "她说。", "好"]


@pytest.mark.parametrize("line", ["", "  ", "...", "a"])
def test_a_line_without_sentences_is_one(line):
    assert sentences(line, "en") == [line]


def test_no_character_but_white_space_is_lost():
    line = "A.B. C!? D… (E.) 5. F。G"
    assert "".join(sentences(line, "en")).replace(" ", "") == line.replace(" ", "")


def test_sentences_are_joined_as_the_language_has_it():
    assert joined(["a.", "", "b."], "de") == "a. b."
    assert joined(["好。", "好。"], "zh") == "好。好。"
    assert joined(["好 。", "好 。"], "zh", spaced=True) == "好 。 好 。"
