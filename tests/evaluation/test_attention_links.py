from __future__ import annotations

import numpy as np
import pytest

from seq2seq_attn.evaluation.attention_links import hard_links, merge_pieces


def test_each_target_word_links_to_the_source_word_it_read_most():
    weights = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]  # 2 target words, 3 source words
    assert hard_links(weights) == {(2, 0), (0, 1)}
    assert hard_links(np.array(weights)) == hard_links(weights)


def test_of_equal_weights_the_first_source_word_is_linked():
    assert hard_links([[0.2, 0.4, 0.4]]) == {(1, 0)}


def test_a_row_below_the_threshold_gives_no_link():
    weights = [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    assert hard_links(weights, threshold=0.5) == {(0, 0)}


def test_a_row_that_read_too_little_gives_no_link():
    weights = [[0.0, 0.0, 0.0], [0.2, 0.1, 0.0], [0.2, 0.2, 0.1]]  # the rest went to </s>
    assert hard_links(weights) == {(0, 1), (0, 2)}
    assert hard_links(weights, minimum_mass=0.4) == {(0, 2)}


def test_sentences_without_words_have_no_links():
    assert hard_links(np.zeros((0, 3))) == hard_links(np.zeros((2, 0))) == hard_links([]) == frozenset()


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
    assert hard_links(words) == {(0, 1), (2, 2)}


def test_weights_that_still_hold_the_end_of_sentence_are_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*cut </s>"):
        merge_pieces(np.ones((2, 3)) / 3, source_words=[0, 1], target_words=[0])
