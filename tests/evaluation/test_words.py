"""Rare words found, things said twice, things left out: counted by hand."""

from collections import Counter

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.resampling import rate_interval
from seq2seq_attn.evaluation.words import (
    FREQUENCIES,
    bags,
    content_words,
    count_words,
    found,
    lengths,
    missing,
    only,
    rarest,
    repeated,
    repeats,
)


def bag(line, tokenize="none"):
    return bags([line], tokenize)[0]


def test_words_are_the_tokens_of_bleu():
    assert bag("Tom sees, 1.5 mice.", "13a").words == Counter(["Tom", "sees", ",", "1.5", "mice", "."])
    assert bag("汤姆 ok", "zh").words == Counter(["汤", "姆", "ok"])
    assert bag("b a b a").bigrams == Counter({("b", "a"): 2, ("a", "b"): 1})
    assert count_words(["a b.", "", "b"], "13a") == Counter({"b": 2, "a": 1, ".": 1})
    assert bags(["Tom saw tom"], lowercase=True)[0].words == count_words(["Tom saw tom"], lowercase=True)
    assert count_words(["Tom", "tom"], lowercase=True) == {"tom": 2}
    with pytest.raises(UserError, match="sacrebleu has no tokenizer"):
        bag("a", "13b")


def test_a_sentence_is_as_rare_as_its_rarest_word():
    counts = {"a": 60, "b": 6, "c": 5}
    assert rarest(bags(["a b", "a a", "c b", "a x c", ""], "none"), counts) == [6, 60, 5, 0, None]


def test_a_reference_word_is_found_up_to_its_smaller_count():
    counts = {"a": 51, "b": 50, "c": 6, "d": 5, "e": 1}
    pair = bag("a a a b x d"), bag("a a b b c d e x y")
    ours, theirs = pair
    shares = {
        label: found(ours, *only([theirs], {word for word in theirs.words if counts.get(word, 0) in band}))
        for label, band in FREQUENCIES.items()
    }
    assert shares == {"unseen": (1, 2), "1-5": (1, 2), "6-50": (1, 3), "51+": (2, 2)}


def test_a_bigram_is_repeated_beyond_its_count_in_the_reference():
    # Of "a b a b a b": "a b" three times, "b a" twice.
    assert repeated(bag("a b a b a b"), bag("c d")) == (2 + 1, 5)
    assert repeated(bag("a b a b a b"), bag("a b a b")) == (1 + 1, 5)
    assert repeated(bag("a b a b a b"), bag("a b a b a b a b")) == (0, 5)
    assert repeated(bag("the cat and the dog"), bag("x")) == (0, 4), "a single word may come again"
    assert [repeated(bag(line), bag("x"))[0] for line in ("a a", "a a a", "")] == [0, 1, 0]
    assert [repeats(bag(line), bag("x")) for line in ("a a", "a a a a a")] == [(0, 1), (1, 1)]


def test_missing_content_words_are_counted_per_occurrence():
    sentences = [bag("the cat sees the mouse and the cat ."), bag("the .")]
    reference, empty = only(sentences, {"cat", "sees", "mouse"})
    assert missing(bag("the mouse the mouse"), reference) == (3, 4)
    assert missing(bag(""), empty) == (0, 0)


def test_content_words_exclude_common_words_and_punctuation():
    lines = ["the " * 3 + "cat", "dog ! 1st", *["x"] * 193]  # 200 words
    assert content_words(bags(lines, "none")) == {"cat", "dog", "1st"}, "the: 1.5 %, and so no content"


def test_lengths_are_in_words():
    assert lengths(bag("a b, c", "13a"), bag("a", "13a")) == (4, 1)


def test_the_interval_of_a_rate_comes_from_its_resampled_sums():
    counts = np.array([[(1, 2), (0, 4), (3, 3), (2, 5)], [(0, 1), (4, 4), (1, 1), (0, 6)]])
    picks = np.random.default_rng(12345).choice(4, size=(1000, 4), replace=True)
    rates = sorted(np.mean([run[pick].sum(axis=0)[0] / run[pick].sum(axis=0)[1] for run in counts]) for pick in picks)
    interval = rate_interval(counts)
    assert interval == pytest.approx((rates[25], rates[-26]))


def test_resamples_with_an_empty_denominator_are_left_out():
    interval = rate_interval(np.array([[(1, 2), (0, 0), (0, 0)]]))
    assert interval == (0.5, 0.5)
    with pytest.raises(ValueError, match="nothing to count"):
        rate_interval(np.array([[(0, 0), (0, 0)]]))
