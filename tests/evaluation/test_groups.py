"""Groups of test sentences, worked by hand, and scores of a group, against sacrebleu on its lines alone."""

import math

import pytest

from seq2seq_attn.evaluation.bootstrap import bleu_interval
from seq2seq_attn.evaluation.counts import BleuCounts, ChrfCounts
from seq2seq_attn.evaluation.groups import group_score, in_bands, in_thirds
from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.metrics import bleu, chrf


def test_bands_take_in_their_ends_and_nothing_without_a_value():
    groups = in_bands([0, 5, 6, None, 51, 1], {"unseen": Band(0, 0), "1-5": Band(1, 5), "51+": Band(51, None)})
    assert groups == [("unseen", [0]), ("1-5", [1, 5]), ("51+", [4])]


def test_thirds_are_cut_at_the_bounds_that_their_labels_say():
    values = [0.907, 0.111, None, 0.5, 0.301, 0.222, 0.8]
    # ranked: .111 .222 | .301 .5 | .8 .907; the bounds .222 and .5, rounded up to two digits
    assert in_thirds(values) == [("to 0.23", [1, 5]), ("0.23 to 0.5", [3, 4]), ("over 0.5", [0, 6])]
    assert [label for label, _ in in_thirds(values, digits=1)] == ["to 0.3", "0.3 to 0.5", "over 0.5"]


def test_equal_values_stay_together_even_if_a_group_is_empty_then():
    assert [rows for _, rows in in_thirds([0.0, 0.0, 0.0, 0.0, 1 / 3, 1 / 3])] == [[0, 1, 2, 3], [], [4, 5]]
    assert [rows for _, rows in in_thirds([0.1, 0.1, 0.1])] == [[0, 1, 2], [], []]
    assert in_thirds([None, None]) == []


def test_every_value_is_in_one_third_whatever_the_rounding():
    values = [math.sin(k) for k in range(101)]
    rows = [row for _, group in in_thirds(values) for row in group]
    assert sorted(rows) == list(range(101))


def test_the_score_of_a_group_is_that_of_its_sentences_as_a_corpus(references, spoil):
    runs = [spoil(references, rate, seed=3) for rate in (0.2, 0.4)]
    rows = list(range(4, 90, 7))
    score = group_score(rows, BleuCounts.of(runs, references), ChrfCounts.of(runs, references))
    alone = [references[row] for row in rows]
    picked = [[run[row] for row in rows] for run in runs]
    interval = bleu_interval(BleuCounts.of(picked, alone))
    assert score.sentences == len(rows)
    assert score.bleu == pytest.approx(sum(bleu(run, alone).value for run in picked) / 2)
    assert score.chrf == pytest.approx(sum(chrf(run, alone).value for run in picked) / 2)
    assert (score.low, score.high) == (interval.low, interval.high)
