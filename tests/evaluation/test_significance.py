"""The joint test over runs and sentences, worked by hand and by simulation, t intervals, and Holm's correction."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from counted import bleu_counts
from scipy.stats import t, ttest_1samp, ttest_ind

from seq2seq_attn.evaluation.counts import CorpusCounts
from seq2seq_attn.evaluation.resampling import paired_bootstrap, score_interval
from seq2seq_attn.evaluation.significance import (
    RunScores,
    TrainingNoise,
    detectable_difference,
    holm,
    joint_interval,
    joint_test,
    t_interval,
)


def runs(scores, resampled):
    return RunScores(np.array(scores), np.array(resampled, dtype=float))


OURS = runs([30.0, 32.0], [[1, 2, 3], [1, 3, 5]])
THEIRS = runs([20.0, 24.0], [[0, 1, 2], [4, 4, 4]])


def test_the_joint_test_equals_a_computation_by_hand():
    # s_a^2 / 2 = 1 and s_b^2 / 2 = 4. C_a = (2 + 0 + 2) / 2 = 2, C_b = 0. The means over runs, (1, 2.5, 4) and
    # (2, 2.5, 3), have the covariance (0.75 + 0.75) / 2 = C_ab. V = 1 + 4 + (2 + 0 - 2 * 0.75) = 5.5.
    result = joint_test(OURS, THEIRS)
    assert result.difference == 9.0
    assert [each.squared_error for each in result.training_noise] == pytest.approx([1, 4])
    assert result.sentences == pytest.approx(0.5)
    assert result.variance == pytest.approx(5.5)
    assert result.degrees_of_freedom == pytest.approx(5.5**2 / (1 / 1 + 16 / 1))
    assert result.p_value == pytest.approx(2 * t.sf(9 / math.sqrt(5.5), 30.25 / 17))
    half = t.ppf(0.975, 30.25 / 17) * math.sqrt(5.5)
    assert (result.low, result.high) == pytest.approx((9 - half, 9 + half))
    assert not result.paired


def test_paired_runs_are_compared_run_by_run():
    # Differences 10 and 8: s_d^2 / 2 = 1; their resamples (1, 1, 1) and (-3, -1, 1) have no covariance. One degree of
    # freedom, where P(|T| > x) = 1 - 2 arctan(x) / π.
    result = joint_test(OURS, THEIRS, paired=True)
    assert result.paired
    assert (result.variance, result.sentences, result.degrees_of_freedom) == pytest.approx((1, 0, 1))
    assert result.p_value == pytest.approx(1 - 2 * math.atan(9) / math.pi)
    assert result.high - 9 == pytest.approx(math.tan(math.pi * 0.475))


def test_without_noise_of_sentences_it_is_welchs_test_and_the_paired_t_test():
    scores = [31.2, 30.1, 32.9], [29.0, 30.5, 28.1]
    constant = [runs(each, np.ones((3, 4))) for each in scores]
    welch, paired = ttest_ind(*scores, equal_var=False), ttest_1samp(np.subtract(*scores), 0)
    assert joint_test(*constant).p_value == pytest.approx(welch.pvalue)
    assert joint_test(*constant).degrees_of_freedom == pytest.approx(welch.df)
    assert joint_test(*constant, paired=True).p_value == pytest.approx(paired.pvalue)


def test_noise_of_sentences_that_arms_share_cancels_and_is_never_negative():
    shared = [[1, 2, 3], [3, 4, 5]]
    result = joint_test(runs([30, 32], shared), runs([20, 24], shared))
    assert result.sentences == pytest.approx(0)
    result = joint_test(runs([30, 32], [[1, 2, 3], [3, 2, 1]]), runs([20, 24], [[1, 2, 3], [3, 2, 1]]))  # C_a = -1
    assert result.sentences == 0


def test_runs_that_all_score_the_same_are_copies_and_allow_no_test():
    copies = runs([30, 30], [[1, 2, 3], [1, 2, 3]])
    assert copies.are_copies
    for pair in ((copies, THEIRS), (OURS, copies), (copies, runs([28, 28], [[5, 5, 5], [5, 5, 5]]))):
        assert joint_test(*pair) is None
        assert joint_test(*pair, paired=True) is None


def test_different_runs_that_score_the_same_by_chance_have_the_noise_that_resamples_show():
    # Var = (1 + 1) / 2 over resamples, and C = -1: in place of s^2 = 0, 1 - (-1) = 2, halved for two runs.
    alike = runs([30, 30], [[1, 2, 3], [3, 2, 1]])
    assert not alike.are_copies
    result = joint_test(alike, runs([20.0, 24.0], [[5, 5, 5], [5, 5, 5]]))
    assert [each.squared_error for each in result.training_noise] == pytest.approx([1, 4])
    assert result.variance == pytest.approx(5)
    half = t.ppf(0.975, 1) * 1  # V = 2 / 2 + max(0, -1)
    assert joint_interval(alike) == pytest.approx((30 - half, 30 + half))


def test_runs_at_the_end_of_the_scale_are_no_copies():
    for end in (0, 100):
        same = runs([end] * 2, [[end] * 3] * 2)
        assert not same.are_copies
        result = joint_test(same, THEIRS)  # V = 4 + 0 and df = 1 * 4^2 / 4^2
        assert (result.variance, result.degrees_of_freedom) == (pytest.approx(4), pytest.approx(1))
    assert joint_test(runs([0] * 2, [[0] * 3] * 2), runs([100] * 2, [[100] * 3] * 2)) is None, "nothing varies"


def test_with_different_numbers_of_runs_both_have_the_degrees_of_freedom_of_the_fewer():
    # s_a^2 / 3 = 1 / 3 and s_b^2 / 2 = 4, no noise of sentences: df = (2 - 1) (13 / 3)^2 / (1 / 9 + 16) = 169 / 145
    result = joint_test(runs([30, 31, 32], np.ones((3, 4))), runs([20, 24], np.ones((2, 4))))
    assert result.degrees_of_freedom == pytest.approx(169 / 145)


def test_swapping_the_arms_negates_the_difference():
    there, back = joint_test(OURS, THEIRS), joint_test(THEIRS, OURS)
    assert (there.low, there.high, there.p_value) == pytest.approx((-back.high, -back.low, back.p_value))


def test_a_single_run_or_no_variance_at_all_gives_no_test():
    """Up to rounding: 100 * (0.1 + 0.2) is not 30."""
    single = runs([31.2], [[1, 2, 3]])
    assert joint_test(single, THEIRS) is None
    assert joint_test(OURS, single) is None
    constant = runs([30, 100 * (0.1 + 0.2)], [[30, 30, 30], [30, 30, 100 * (0.1 + 0.2)]])
    assert joint_test(runs([20, 20], np.full((2, 3), 20)), constant) is None
    assert not constant.differ
    assert runs([30, 30.001], constant.resampled).differ


def test_pairs_need_the_same_number_of_runs():
    with pytest.raises(ValueError, match="same number in both arms, got 2 and 3"):
        joint_test(OURS, runs([1, 2, 3], np.ones((3, 3))), paired=True)


class Experiments:
    """Experiments whose truth is known: the score of a run is the mean over sentences of

        difference + training (seed) + sentence + arm x sentence + noise,

    so that with n seeds and S sentences the true variance of the difference of two arms is known as well.
    """

    SENTENCES, RESAMPLES = 100, 200
    TRAINING, SENTENCE, INTERACTION, NOISE = 0.6, 8.0, 2.0, 6.0  # standard deviations

    def __init__(self, seed=1, is_coarse=False):
        self.is_coarse = is_coarse  # a sentence is right or wrong, so that runs may score the same by chance
        self.draw = np.random.default_rng(seed)
        picks = self.draw.integers(self.SENTENCES, size=(self.RESAMPLES, self.SENTENCES))
        self.weights = np.stack([np.bincount(row, minlength=self.SENTENCES) for row in picks]) / self.SENTENCES

    def test(self, counts, difference=0.0, paired=False):
        """A test of two arms with these numbers of runs; paired runs share half of their training noise."""
        sentence = self.draw.normal(0, self.SENTENCE, self.SENTENCES)
        shared = self.draw.normal(0, self.TRAINING, counts[0]) if paired else 0.0
        arms = []
        for gain, count in zip((difference, 0.0), counts, strict=True):
            training = gain + shared + self.draw.normal(0, self.TRAINING, count)
            own = sentence + self.draw.normal(0, self.INTERACTION, self.SENTENCES)
            scores = training[:, None] + own + self.draw.normal(0, self.NOISE, (count, self.SENTENCES))
            scores = 100.0 * (scores > 0) if self.is_coarse else scores
            arms.append(RunScores(scores.mean(axis=1), scores @ self.weights.T))
        return joint_test(*arms, paired=paired)


@pytest.mark.parametrize(
    ("counts", "paired", "is_coarse"),
    [
        *((counts, False, False) for counts in ((2, 2), (5, 5), (3, 2), (10, 2))),
        *(((n, n), True, False) for n in (3, 5)),
        ((2, 2), False, True),
        ((3, 3), True, True),
    ],
)
def test_between_equal_arms_at_most_five_percent_of_verdicts_are_false(counts, paired, is_coarse):
    experiments = Experiments(is_coarse=is_coarse)
    tests = [experiments.test(counts, paired=paired) for _ in range(1000)]
    false = np.mean([test.p_value < 0.05 for test in tests])
    assert 0.005 < false < 0.06  # the standard error is 0.7 %
    assert np.mean([test.low <= 0 <= test.high for test in tests]) == pytest.approx(1 - false)


@pytest.mark.parametrize(("count", "comparisons"), [(3, 1), (5, 13)])
def test_the_detectable_difference_is_detected_with_80_percent_power(count, comparisons):
    experiments = Experiments()
    training = TrainingNoise((0.6**2 + 6.0**2 / 100) / count, count - 1)
    truth = replace(experiments.test((count, count)), training_noise=(training, training), sentences=2 * 2.0**2 / 100)
    detectable = detectable_difference(truth, comparisons)
    tests = [experiments.test((count, count), detectable) for _ in range(1500)]
    assert 0.75 < np.mean([test.p_value < 0.05 / comparisons for test in tests]) < 0.85


def test_more_comparisons_need_a_larger_difference_and_two_runs_promise_nothing():
    experiments = Experiments()
    test = experiments.test((5, 5))
    found = [detectable_difference(test, comparisons) for comparisons in (1, 2, 13)]
    assert all(one < other for one, other in pairwise(found))
    assert detectable_difference(experiments.test((2, 2))) is None


def test_the_scores_of_runs_are_those_of_the_test_set_and_of_its_resamples():
    draw = random.Random(4)
    references = [" ".join(draw.choices("abcdef", k=9)) for _ in range(40)]
    spoilt = [[line.replace(letter, "x") for line in references] for letter in "ab"]
    counts = bleu_counts(spoilt, references)
    found = RunScores.of(counts)
    assert found.scores.tolist() == counts.scores().tolist()
    assert np.sort(found.resampled.mean(axis=0))[[25, -26]].tolist() == [*score_interval(counts)]
    gap = found.resampled[0] - found.resampled[1]
    one, other = (CorpusCounts(counts.counts[[run]], counts.counting) for run in (0, 1))
    assert paired_bootstrap(one, other).low == np.sort(gap)[25]


def test_the_interval_of_an_arm_has_the_noise_of_training_runs_and_of_sentences():
    # s^2 / 2 = 1 and C = 2, so V = 3 with 9 / 1 degrees of freedom
    half = t.ppf(0.975, 9) * math.sqrt(3)
    assert joint_interval(OURS) == pytest.approx((31 - half, 31 + half))
    assert joint_interval(runs([31.2], [[1, 2, 3]])) is None
    constant = runs([18.0, 20.0, 22.0], np.ones((3, 4)))
    assert joint_interval(constant) == pytest.approx(t_interval([18.0, 20.0, 22.0]))


def test_the_interval_of_three_scores_equals_a_computation_by_hand():
    # mean 20, s = 2, t_{0.975, 2} = 4.3027 (any table), 4.3027 * 2 / √3 = 4.968
    assert t_interval([18.0, 20.0, 22.0]) == pytest.approx((15.032, 24.968), abs=1e-3)
    scores = [31.2, 30.1, 32.9]
    assert t_interval(scores) == pytest.approx(ttest_1samp(scores, 0).confidence_interval(0.95))


def test_one_score_has_no_interval():
    assert t_interval([31.2]) is None


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
