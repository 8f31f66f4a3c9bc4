"""Groups of test sentences, by length or any other property, and their scores."""

from __future__ import annotations

import math

import pytest
from counted import bleu, bleu_counts

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.groups import Band, in_bands, in_thirds, length_bands, length_quantiles, scores_by_length


def test_a_band_includes_both_ends():
    assert [length for length in range(15) if length in Band(3, 6)] == [3, 4, 5, 6]
    assert 10**6 in Band(51, None)
    assert 50 not in Band(51, None)
    assert [str(Band(3, 6)), str(Band(51, None))] == ["3-6", "51+"]


def test_an_empty_band_is_refused():
    with pytest.raises(UserError, match="20-11"):
        Band(20, 11)


def by_length(hypotheses, references, lengths, bands, **options):
    return scores_by_length(bleu_counts([hypotheses], references, **options), lengths, bands)


def test_each_band_scores_its_own_sentences_as_one_corpus(references, spoil):
    hypotheses = spoil(references, 0.3, seed=2)
    lengths = [(row * 7) % 13 for row in range(90)]
    scores = by_length(hypotheses, references, lengths, [Band(2, 4), Band(9, None)])
    for found, kept in zip(scores, [range(2, 5), range(9, 13)], strict=True):
        rows = [row for row in range(90) if lengths[row] in kept]
        assert found["sentences"] == len(rows)
        assert found["score"] == bleu([hypotheses[row] for row in rows], [references[row] for row in rows]).value


def test_bands_equal_a_computation_by_hand():
    # Two sentences of one band, 7 of 8 words right: n-gram precisions 7/8, 5/6, 3/4 and 1/2 over the pair.
    hypotheses = ["a b c d", "e f g x", "z z z z"]
    references = ["a b c d", "e f g h", "i j k l"]
    short, long = by_length(hypotheses, references, [1, 10, 11], length_bands([10, 20]))
    score = pytest.approx(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25)
    assert short == {"low": 1, "high": 10, "sentences": 2, "score": score}
    assert long == {"low": 11, "high": 20, "sentences": 1, "score": 0}


def test_groups_of_bands_leave_out_missing_values():
    groups = in_bands([0, 5, 6, None, 51, 1], {"unseen": Band(0, 0), "1-5": Band(1, 5), "51+": Band(51, None)})
    assert groups == [("unseen", [0]), ("1-5", [1, 5]), ("51+", [4])]


def test_thirds_have_the_bounds_of_their_labels():
    values = [0.907, 0.111, None, 0.5, 0.301, 0.222, 0.8]
    # ranked: .111 .222 | .301 .5 | .8 .907; the bounds .222 and .5, rounded up to two digits
    assert in_thirds(values) == [("to 0.23", [1, 5]), ("0.23 to 0.5", [3, 4]), ("over 0.5", [0, 6])]


def test_equal_values_stay_together_even_if_a_group_is_empty_then():
    assert [rows for _, rows in in_thirds([0.0, 0.0, 0.0, 0.0, 1 / 3, 1 / 3])] == [[0, 1, 2, 3], [], [4, 5]]
    assert [rows for _, rows in in_thirds([0.1, 0.1, 0.1])] == [[0, 1, 2], [], []]
    above = (1.35 + 1.35 + 1.35) / 3  # 1.3500000000000003
    assert [rows for _, rows in in_thirds([1.0, 1.0, 1.35, above, 5.0, 6.0])] == [[0, 1], [2, 3], [4, 5]]
    assert in_thirds([None, None]) == []


def test_every_value_is_in_one_third_whatever_the_rounding():
    values = [math.sin(k) for k in range(101)]
    rows = [row for _, group in in_thirds(values) for row in group]
    assert sorted(rows) == list(range(101))


def test_quantiles_of_length_are_even_and_no_smaller_than_asked():
    lengths = [*range(3, 20)] * 20
    bands = length_quantiles(lengths, least=30)
    sizes = [sum(length in band for length in lengths) for band in bands]
    assert (len(bands), sum(sizes)) == (5, len(lengths))
    assert max(sizes) - min(sizes) <= 20
    assert [band.low for band in bands[1:]] == [band.high + 1 for band in bands[:-1]]
    assert (bands[0].low, bands[-1].high) == (3, None)
    assert len(length_quantiles(lengths, least=100)) == 3


@pytest.mark.parametrize("lengths", [[7] * 100, [5] * 59, [4] * 40 + [9] * 29, []])
def test_lengths_that_cannot_be_divided_have_no_quantiles(lengths):
    assert length_quantiles(lengths, least=30) == []
