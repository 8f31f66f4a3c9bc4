"""Statistics over seeds, worked by hand and against SciPy, and Holm's correction."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from seq2seq_attn.evaluation.significance import detectable_difference, holm, t_interval, welch

OURS, THEIRS = [31.2, 30.1, 32.9], [29.0, 30.5, 28.1, 29.9]


def test_the_interval_of_three_scores_equals_a_computation_by_hand():
    # mean 20, s = 2, t_{0.975, 2} = 4.3027 (any table), 4.3027 * 2 / √3 = 4.968
    assert t_interval([18.0, 20.0, 22.0]) == pytest.approx((15.032, 24.968), abs=1e-3)
    assert t_interval(OURS) == pytest.approx(ttest_1samp(OURS, 0).confidence_interval(0.95))


def test_one_score_has_no_interval():
    assert t_interval([31.2]) is None


def test_the_test_over_seeds_equals_scipys_welch_test():
    expected = ttest_ind(OURS, THEIRS, equal_var=False)
    result = welch(OURS, THEIRS)
    assert result.difference == pytest.approx(np.mean(OURS) - np.mean(THEIRS))
    assert result.p_value == pytest.approx(expected.pvalue)
    assert result.degrees_of_freedom == pytest.approx(expected.df)
    assert (result.low, result.high) == pytest.approx(expected.confidence_interval(0.95))
    assert result.standard_error == pytest.approx(result.difference / expected.statistic)


def test_swapping_the_arms_negates_the_difference():
    there, back = welch(OURS, THEIRS), welch(THEIRS, OURS)
    assert (there.low, there.high, there.p_value) == pytest.approx((-back.high, -back.low, back.p_value))


def test_a_single_seed_or_constant_scores_give_no_test():
    assert welch([31.2], THEIRS) is None
    assert welch(OURS, [29.0]) is None
    assert welch([20.0, 20.0], [30.0, 30.0, 30.0]) is None


def test_an_arm_with_constant_scores_leaves_the_degrees_of_freedom_of_the_other():
    result = welch([20.0, 20.0], OURS)
    assert result.degrees_of_freedom == pytest.approx(2)
    assert (result.low - result.high) / 2 == pytest.approx(np.subtract(*t_interval(OURS)) / 2)


def trainings(difference, arms=1500):
    """Tests of 4 seeds with a standard deviation of 1.5 against 3 seeds with one of 0.7; their truth is known."""
    draw = np.random.default_rng(3)
    return [welch(draw.normal(20 + difference, 1.5, 4), draw.normal(20, 0.7, 3)) for _ in range(arms)]


def test_without_a_true_difference_welch_has_its_nominal_level():
    tests = trainings(difference=0.0)
    assert 50 < sum(test.p_value < 0.05 for test in tests) < 100  # 75 of 1,500
    assert 1400 < sum(test.low <= 0 <= test.high for test in tests) < 1450


def test_the_detectable_difference_between_seeds_is_detected_with_80_percent_power():
    spread = 1.5**2 / 4, 0.7**2 / 3
    freedom = sum(spread) ** 2 / (spread[0] ** 2 / 3 + spread[1] ** 2 / 2)
    tests = trainings(difference=detectable_difference(sum(spread) ** 0.5, freedom))
    assert 0.75 < np.mean([test.p_value < 0.05 for test in tests]) < 0.85


def test_the_detectable_difference_uses_the_quantiles_of_level_and_power():
    assert detectable_difference(1.0) == pytest.approx(1.9600 + 0.8416, abs=1e-4)
    assert detectable_difference(3.0, 4) == pytest.approx(3 * (2.7764 + 0.9410), abs=1e-3)


def test_holm_equals_a_computation_by_hand():
    # In order: 4 x 0.005 = 0.02; 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 = 0.04, but never less than before it: 0.06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_equal_p_values_are_corrected_equally_and_none_exceeds_one():
    assert holm([0.4, 0.02, 0.02, 0.9]) == pytest.approx([0.8, 0.08, 0.08, 0.9])
    assert holm([0.7, 0.6]) == [1.0, 1.0]


def test_one_comparison_needs_no_correction():
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_without_true_differences_five_percent_of_tables_have_a_significant_row():
    draw = random.Random(1)
    tables = [[draw.random() for _ in range(7)] for _ in range(2000)]
    raw, corrected = (sum(min(p) < 0.05 for p in each) for each in (tables, map(holm, tables)))
    assert raw > 500  # 1 - 0.95^7 = 30 %
    assert 60 < corrected < 140  # 5 %
