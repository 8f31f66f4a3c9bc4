from __future__ import annotations

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.length import Band, bleu_by_length
from seq2seq_attn.evaluation.metrics import bleu


def test_a_band_holds_both_its_ends():
    assert [length for length in range(15) if length in Band(3, 6)] == [3, 4, 5, 6]
    assert 10**6 in Band(51, None)
    assert 50 not in Band(51, None)
    assert [str(Band(3, 6)), str(Band(51, None))] == ["3-6", "51+"]


def test_a_band_that_holds_nothing_is_refused():
    with pytest.raises(UserError, match="20-11"):
        Band(20, 11)


def test_each_band_scores_its_own_sentences_as_one_corpus(references, spoil):
    hypotheses = spoil(references, 0.3, seed=2)
    lengths = [(row * 7) % 13 for row in range(90)]
    scores = bleu_by_length(hypotheses, references, lengths, bands=[Band(2, 4), Band(9, None)])
    for found, kept in zip(scores, [range(2, 5), range(9, 13)], strict=True):
        rows = [row for row in range(90) if lengths[row] in kept]
        assert found.sentences == len(rows)
        assert found.score == bleu([hypotheses[row] for row in rows], [references[row] for row in rows])


def test_bands_worked_by_hand():
    # Two sentences of one band, 7 of 8 words right: n-gram precisions 7/8, 5/6, 3/4 and 1/2 over the pair.
    hypotheses = ["a b c d", "e f g x", "z z z z"]
    references = ["a b c d", "e f g h", "i j k l"]
    short, long = bleu_by_length(hypotheses, references, [1, 10, 11])
    assert (short.band, short.sentences) == (Band(1, 10), 2)
    assert short.score.value == pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)
    assert (long.band, long.sentences, long.score.value) == (Band(11, 20), 1, 0)


def test_empty_bands_are_left_out_and_the_last_default_one_is_open():
    lines = ["Tom sees a mouse."] * 3
    bands = [score.band for score in bleu_by_length(lines, lines, [50, 51, 700])]
    assert bands == [Band(41, 50), Band(51, None)]


def test_tokeniser_and_case_reach_every_band():
    (score,) = bleu_by_length(["汤姆追逐杰瑞"], ["汤姆追逐杰瑞"], [3], tokenize="zh", lowercase=True)
    assert score.score == bleu(["汤姆追逐杰瑞"], ["汤姆追逐杰瑞"], tokenize="zh", lowercase=True)


def test_missing_source_lengths_are_refused_with_the_counts():
    with pytest.raises(UserError, match="1 source lengths but 2 hypotheses"):
        bleu_by_length(["a", "b"], ["a", "b"], [1])
