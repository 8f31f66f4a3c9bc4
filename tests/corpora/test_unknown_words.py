import time

import pytest

from seq2seq_attn.corpora.unknown_words import Spellings, UnknownCount, UnknownReport, known_forms
from seq2seq_attn.corpora.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["Tom", "'s", "dog", "the", "US", ".", ","])


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("the", ["the"]),
        ("THE", ["the"]),
        ("tom", ["Tom"]),
        ("US", ["US"]),
        ("Tom.", ["Tom", "."]),
        ("TOM'S.", ["Tom", "'s", "."]),
        ("dog...", ["dog", ".", ".", "."]),
        ("...", [".", ".", "."]),
        ("cats,", ["cats", ","]),
        ("Tom!", ["Tom", "!"]),
        ("TOM?!,", ["Tom", "?!", ","]),
        ("cats!", ["cats!"]),
        ("<unk>.", ["<unk>", "."]),
        ("cats", ["cats"]),
        ("☃", ["☃"]),
    ],
)
def test_a_word_is_read_in_the_form_that_is_known(word, read):
    assert known_forms(word, VOCABULARY) == read


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("汤姆追逐杰瑞。", ["汤姆", "追逐", "杰瑞", "。"]),
        ("懒女孩", ["懒", "女孩"]),  # the longest first, though 懒女 is known, too
        ("追逐汤姆，", ["追逐", "汤姆", "，"]),
        ("汤姆猫", ["汤姆猫"]),  # a part of it is unknown
        ("dogcat", ["dogcat"]),  # in a script with spaces, words are not split
    ],
)
def test_a_word_of_a_script_without_spaces_is_read_in_known_words(word, read):
    known = Vocabulary(["汤姆", "追逐", "杰瑞", "。", "，", "懒女", "女", "女孩", "懒", "dog", "cat"])
    assert known_forms(word, known) == read


def test_a_long_word_without_spaces_is_read_at_once():
    known = Vocabulary(["汤", "汤汤", "汤汤汤"])
    started = time.process_time()
    assert known_forms("汤" * 100, known) == ["汤汤汤"] * 33 + ["汤"]
    assert time.process_time() - started < 1


def test_words_that_share_letters_are_found_the_nearest_first():
    words = Spellings(Vocabulary(["chases", "chase", "chasing", "Tom", "tomb", "."]))
    assert words.near("chased") == ["chase", "chases", "chasing"]
    assert words.near("TOM") == ["Tom", "tomb"]
    assert words.near("zzz") == words.near("chases" * 100) == []


def test_a_long_word_is_read_at_once():
    started = time.process_time()
    assert known_forms("☃" * 1_000_000, VOCABULARY) == ["☃" * 1_000_000]
    assert known_forms("☃" * 100, VOCABULARY) == ["☃" * 100]
    assert time.process_time() - started < 1


def reported(lines, **options):
    said = []
    report = UnknownReport(said.append, **options)
    for line, unknown in lines:
        report.add(line, unknown.split())
    report.summarize()
    return said


def test_unknown_words_are_reported_line_by_line_where_the_lines_are_few():
    assert reported([("I love you", "love you"), ("the dog", ""), ("the cat", "cat")]) == [
        "line 1: 2 of 3 words are unknown to this model: love, you",
        "line 3: 1 of 2 words is unknown to this model: cat",
    ]


def test_a_whole_file_of_unknown_words_is_summarized():
    many = [("x y", "x")] * 7 + [("dog", "")] * 2
    assert reported(many, most=2) == [
        "line 1: 1 of 2 words is unknown to this model: x",
        "line 2: 1 of 2 words is unknown to this model: x",
        "in all, 7 of 16 words (43.75 %) are unknown to this model, in 7 of 9 lines",
    ]
    assert len(reported(many, most=None)) == 7


def test_of_a_long_line_the_first_unknown_words_are_listed():
    words = " ".join(f"w{n}" for n in range(23))
    listed = ", ".join(f"w{n}" for n in range(10))
    assert reported([(words, words)]) == [f"line 1: 23 of 23 words are unknown to this model: {listed} and 13 more"]


def test_a_text_without_words_has_no_unknown_share():
    assert UnknownCount(0, 0).share == 0
    assert UnknownCount(1, 4).share == 0.25
