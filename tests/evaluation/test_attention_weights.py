"""Links, entropy and rank correlation of attention weights, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus
from seq2seq_attn.evaluation.attention_weights import (
    CrossAttention,
    RankCorrelation,
    Words,
    argmax_links,
    attention_entropy,
    measure_heads,
    merge_pieces,
    rank_correlation,
    threshold_links,
)


def test_a_word_has_the_row_that_predicts_it_or_the_row_whose_input_it_is():
    # Two target words and </s>, three source words and </s>.
    weights = np.array([[[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.4, 0.5, 0.1]]])
    source, target = Words(("a", "b", "c"), (0, 1, 2, None)), Words(("x", "y"), (0, 1, None))
    pair = CrossAttention((*"abc", "</s>"), (*"xy", "</s>"), (weights,), source, target)
    assert (pair.words().source, pair.words().target) == (("a", "b", "c"), ("x", "y"))
    np.testing.assert_array_equal(pair.words().weights, [[0.1, 0.2, 0.3], [0.5, 0.1, 0.1]])
    np.testing.assert_array_equal(pair.words("read").weights, [[0.5, 0.1, 0.1], [0.0, 0.4, 0.5]])
    without_end = CrossAttention((*"abc", "</s>"), ("x", "y"), (weights[:, :2],), source)
    with pytest.raises(UserError, match="'y' is the last target label"):
        without_end.words("read")


def test_layers_and_heads_that_a_model_does_not_have_are_named():
    found = CrossAttention((*"abcd",), (*"xy",), (np.zeros((3, 2, 4)), np.zeros((2, 2, 4))))
    for place, message in {
        (2, None): "layer 2: this model reads the source in 2 layers, numbered from 0 to 1",
        (-1, 0): "layer -1: .*",
        (1, 2): "head 2: layer 1 has 2 heads, numbered from 0 to 1",
        (0, -1): "head -1: .*",
    }.items():
        with pytest.raises(UserError, match=f"^{message}$"):
            found.head(*place)


def test_measures_of_heads_worked_by_hand():
    """Two words and two layers: the first has a head on the diagonal and one off it, the second one head off it."""
    diagonal, off = np.eye(2), np.array([[0.1, 0.9], [0.9, 0.1]])
    pair = CrossAttention(("a", "b"), ("b", "a"), (np.stack((diagonal, off)), off[None]))
    gold = GoldCorpus([frozenset({(0, 0), (1, 1)})] * 2, [frozenset()] * 2)
    found = {each[:2]: each for each in measure_heads([pair, pair], gold, [off, off])}
    # In the mean of the first layer the diagonal has 0.55, in that of both layers 0.325.
    assert {place: each.agreement.error_rate for place, each in found.items()} == {
        (0, 0): 0, (0, 1): 1, (0, None): 0, (1, 0): 1, (1, None): 1, (None, None): 1,
    }  # fmt: skip
    assert {place: round(each.entropy, 3) for place, each in found.items()} == {
        (0, 0): 0, (0, 1): 0.469, (0, None): 0.993, (1, 0): 0.469, (1, None): 0.469, (None, None): 0.910,
    }  # fmt: skip
    assert [each.correlation for each in found.values()] == pytest.approx([-1, 1, -1, 1, 1, 1])
    missed = measure_heads([pair, None], gold)
    assert missed[0].agreement.recall == 0.5
    assert missed[0].correlation is None
    with pytest.raises(UserError, match="every pair has a blank side"):
        measure_heads([None, None], gold)


def test_each_target_word_is_linked_to_the_source_word_with_the_largest_weight():
    weights = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]  # 2 target words, 3 source words
    assert argmax_links(weights) == {(2, 0), (0, 1)}
    assert argmax_links(np.array(weights)) == argmax_links(weights)


def test_of_equal_weights_the_first_is_linked_and_a_row_of_zeros_gives_no_link():
    assert argmax_links([[0.2, 0.4, 0.4]]) == {(1, 0)}
    assert argmax_links([[0.0, 0.0, 0.0], [0.2, 0.1, 0.0]]) == {(0, 1)}
    assert threshold_links([[0.0, 0.0, 0.0], [0.2, 0.1, 0.0]], 0.0) == {(0, 1), (1, 1)}
    assert argmax_links(np.zeros((0, 3))) == argmax_links(np.zeros((2, 0))) == argmax_links([]) == frozenset()
    assert threshold_links(np.zeros((0, 3)), 0.5) == threshold_links(np.zeros((2, 0)), 0.5) == frozenset()


def test_all_words_with_at_least_the_threshold_are_linked():
    weights = [[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]]
    assert threshold_links(weights, 0.4) == {(2, 0), (0, 1), (1, 1)}
    assert threshold_links(weights, 0.2) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)}
    assert threshold_links(weights, 0.8) == frozenset()


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    # source words: pieces 0 | 1 2 | 3; target words: pieces 0 1 | 2
    pieces = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.4, 0.5, 0.1]]
    words = merge_pieces(pieces, source_words=[0, 1, 1, 2], target_words=[0, 0, 1])
    np.testing.assert_allclose(words, [[0.3, 0.35, 0.35], [0.0, 0.9, 0.1]])


def test_rows_still_sum_to_one_after_merging_and_words_of_a_single_piece_keep_their_weights():
    pieces = np.random.default_rng(1).dirichlet(np.ones(7), size=5)
    words = merge_pieces(pieces, source_words=[0, 0, 1, 2, 2, 2, 3], target_words=[0, 1, 1, 1, 2])
    assert words.shape == (3, 4)
    np.testing.assert_allclose(words.sum(axis=1), 1)
    np.testing.assert_array_equal(merge_pieces(pieces, range(7), range(5)), pieces)


def test_a_word_without_pieces_has_no_weight_and_no_link():
    words = merge_pieces([[0.7, 0.3], [0.2, 0.8]], source_words=[0, 2], target_words=[1, 2])
    np.testing.assert_array_equal(words, [[0, 0, 0], [0.7, 0, 0.3], [0.2, 0, 0.8]])
    assert argmax_links(words) == {(0, 1), (2, 2)}


def test_weights_that_include_the_end_of_sentence_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*cut </s>"):
        merge_pieces(np.ones((2, 3)) / 3, source_words=[0, 1], target_words=[0])


@pytest.mark.parametrize(
    ("matrices", "bits"),
    [
        ([[[0.0, 1.0, 0.0]]], 0),
        ([[[1 / 8] * 8] * 2], 3),
        ([[[0.5, 0.25, 0.25]]], 1.5),
        ([[[0.2, 0.1, 0.1]]], 1.5),  # divided by its sum
        ([[[1.0, 0.0]], [[0.5, 0.5]] * 3], 3 / 4),  # the mean over rows, not over sentences
        ([[[0.0, 0.0], [0.5, 0.5]]], 1),  # a row of zeros does not count
        ([np.zeros((4, 3))], None),
        ([], None),
    ],
)
def test_entropy_equals_a_computation_by_hand(matrices, bits):
    found = attention_entropy([np.array(weights) for weights in matrices])
    assert found == (bits if bits is None else pytest.approx(bits))


def rows(*pairs):
    return [tuple(np.array(row, dtype=float) for row in pair) for pair in pairs]


def test_tau_equals_a_computation_by_hand():
    # Of six pairs of words, the two rows order five alike and one the other way round.
    assert rank_correlation(rows(([1, 2, 3, 4], [10, 30, 20, 40]))).mean == pytest.approx((5 - 1) / 6)
    # One tie on the left: five pairs that it orders, all of them alike.
    tied = rank_correlation(rows(([1, 1, 3, 4], [1, 2, 3, 4])))
    assert tied.mean == pytest.approx(5 / (5 * 6) ** 0.5)


def test_tau_is_averaged_over_rows_and_constant_rows_are_ignored():
    same, reverse, flat, alone = ([1, 2], [0.1, 0.7]), ([1, 2], [5, 4]), ([1, 2], [3, 3]), ([1], [2])
    assert rank_correlation(rows(same, flat, reverse, same, alone)) == RankCorrelation(
        pytest.approx(1 / 3), pytest.approx((8 / 9) ** 0.5), 3
    )
    assert rank_correlation(rows(flat, flat[::-1])) == RankCorrelation(None, None, 0)
    assert rank_correlation([]) == RankCorrelation(None, None, 0)
