from __future__ import annotations

import numpy as np
import pytest

from seq2seq_attn.evaluation.attention_links import argmax_links, merge_pieces, threshold_links, word_rows


def test_a_word_has_the_row_that_predicted_it_or_the_row_of_the_step_that_read_it():
    # Two target words and </s>, three source words and </s>.
    weights = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.4, 0.5, 0.1]]
    np.testing.assert_array_equal(word_rows(weights), [[0.1, 0.2, 0.3], [0.5, 0.1, 0.1]])
    np.testing.assert_array_equal(word_rows(weights, "read"), [[0.5, 0.1, 0.1], [0.0, 0.4, 0.5]])


def test_each_target_word_links_to_the_source_word_it_read_most():
    weights = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]  # 2 target words, 3 source words
    assert argmax_links(weights) == {(2, 0), (0, 1)}
    assert argmax_links(np.array(weights)) == argmax_links(weights)


def test_of_equal_weights_the_first_source_word_is_linked():
    assert argmax_links([[0.2, 0.4, 0.4]]) == {(1, 0)}


def test_a_row_that_read_nothing_gives_no_link():
    assert argmax_links([[0.0, 0.0, 0.0], [0.2, 0.1, 0.0]]) == {(0, 1)}
    assert threshold_links([[0.0, 0.0, 0.0], [0.2, 0.1, 0.0]], 0.0) == {(0, 1), (1, 1)}


def test_all_words_from_the_threshold_on_are_linked():
    weights = [[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]]
    assert threshold_links(weights, 0.4) == {(2, 0), (0, 1), (1, 1)}
    assert threshold_links(weights, 0.2) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)}
    assert threshold_links(weights, 0.8) == frozenset()


def test_sentences_without_words_have_no_links():
    assert argmax_links(np.zeros((0, 3))) == argmax_links(np.zeros((2, 0))) == argmax_links([]) == frozenset()
    assert threshold_links(np.zeros((0, 3)), 0.5) == threshold_links(np.zeros((2, 0)), 0.5) == frozenset()


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    # source words: pieces 0 | 1 2 | 3; target words: pieces 0 1 | 2
    pieces = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.4, 0.5, 0.1]]
    words = merge_pieces(pieces, source_words=[0, 1, 1, 2], target_words=[0, 0, 1])
    np.testing.assert_allclose(words, [[0.3, 0.35, 0.35], [0.0, 0.9, 0.1]])


def test_rows_still_sum_to_one_after_merging():
    pieces = np.random.default_rng(1).dirichlet(np.ones(7), size=5)
    words = merge_pieces(pieces, source_words=[0, 0, 1, 2, 2, 2, 3], target_words=[0, 1, 1, 1, 2])
    assert words.shape == (3, 4)
    np.testing.assert_allclose(words.sum(axis=1), 1)


def test_words_of_one_piece_each_keep_their_weights():
    pieces = np.random.default_rng(1).dirichlet(np.ones(3), size=2)
    np.testing.assert_array_equal(merge_pieces(pieces, [0, 1, 2], [0, 1]), pieces)


def test_a_word_without_pieces_has_no_weight_and_no_link():
    words = merge_pieces([[0.7, 0.3], [0.2, 0.8]], source_words=[0, 2], target_words=[1, 2])
    np.testing.assert_array_equal(words, [[0, 0, 0], [0.7, 0, 0.3], [0.2, 0, 0.8]])
    assert argmax_links(words) == {(0, 1), (2, 2)}


def test_weights_that_still_hold_the_end_of_sentence_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*cut </s>"):
        merge_pieces(np.ones((2, 3)) / 3, source_words=[0, 1], target_words=[0])
