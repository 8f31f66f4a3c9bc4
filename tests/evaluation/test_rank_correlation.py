"""Kendall's rank correlation over many rows, with numbers worked by hand."""

import numpy as np
import pytest

from seq2seq_attn.evaluation.rank_correlation import RankCorrelation, rank_correlation


def rows(*pairs):
    return [tuple(np.array(row, dtype=float) for row in pair) for pair in pairs]


def test_tau_by_hand():
    # Of six pairs of words, the two rows order five alike and one the other way round.
    assert rank_correlation(rows(([1, 2, 3, 4], [10, 30, 20, 40]))).mean == pytest.approx((5 - 1) / 6)
    # One tie on the left: five pairs that it orders, all of them alike.
    tied = rank_correlation(rows(([1, 1, 3, 4], [1, 2, 3, 4])))
    assert tied.mean == pytest.approx(5 / (5 * 6) ** 0.5)


def test_rows_are_averaged_and_those_without_an_order_do_not_count():
    same, reverse, flat, alone = ([1, 2], [0.1, 0.7]), ([1, 2], [5, 4]), ([1, 2], [3, 3]), ([1], [2])
    assert rank_correlation(rows(same, flat, reverse, same, alone)) == RankCorrelation(
        pytest.approx(1 / 3), pytest.approx((8 / 9) ** 0.5), 3
    )
    assert rank_correlation(rows(flat, flat[::-1])) == RankCorrelation(None, None, 0)
    assert rank_correlation([]) == RankCorrelation(None, None, 0)
