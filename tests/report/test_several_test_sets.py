"""`mean_difference`: two arms over several test sets, against Welch's test of SciPy and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from seq2seq_attn.results.breakdowns import Breakdown
from seq2seq_attn.results.differences import JointTest, PairedComparison
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results, Spread
from seq2seq_attn.results.test_sets import difference_between, mean_difference


def compared(difference, low, high, freedom=None):
    """The results of attention against a baseline in WER; with degrees of freedom, by the joint test."""
    joint = None if freedom is None else JointTest(0.5, 0.5, low, high, freedom, paired=False, detectable=None)
    pair = PairedComparison("attention", "none", difference, low, high, 0.5, 0.5, joint=joint)
    arms = [
        ArmResult(name, 1, (1,), {"wer": Spread(50, 0, low=40, high=60)}, train_seconds=1.0)
        for name in ("none", "attention")
    ]
    metric = MetricRecord("wer", "WER", 1, "lower", "errors")
    groups = Breakdown("", "", ("1+",), {arm.name: (None,) for arm in arms})
    return Results("toy", (metric,), 100, tuple(arms), (pair,), groups, {}, "1", "", "")


def test_the_mean_over_two_test_sets_is_tested_as_by_welch():
    # The mean of two independent differences, one of them negated, is half the difference of two means.
    generator = np.random.default_rng(0)
    first, second = generator.normal(2, 1, 4), generator.normal(1, 3, 6)
    comparisons = []
    for sample in (first, -second):
        ends = stats.t.interval(0.95, len(sample) - 1, sample.mean(), stats.sem(sample))
        comparisons.append(compared(float(sample.mean()), *map(float, ends), len(sample) - 1))
    found = mean_difference(comparisons, "attention", "none", "wer")
    welch = stats.ttest_ind(first, second, equal_var=False)
    ends = welch.confidence_interval()
    assert found == pytest.approx(((first.mean() - second.mean()) / 2, ends.low / 2, ends.high / 2, welch.pvalue))


def test_of_one_test_set_it_is_the_difference_there():
    assert mean_difference([compared(-3.0, -5.0, -1.0, 4.0)], "attention", "none", "wer")[:3] == pytest.approx(
        (-3, -5, -1)
    )


def test_single_runs_are_not_tested_and_keep_the_two_sides_of_their_intervals():
    comparisons = [compared(-10.0, -13.0, -6.0), compared(-2.0, -6.0, 1.0)]
    found = mean_difference(comparisons, "attention", "none", "wer")
    assert found == pytest.approx((-6, -6 - 5 / 2, -6 + 5 / 2, None))  # sqrt(3² + 4²) / 2, sqrt(4² + 3²) / 2
    assert mean_difference([compared(-3.0, -5.0, -1.0, 4.0), *comparisons], "attention", "none", "wer").p_value is None


def test_the_difference_is_that_of_the_arm_named_first_whichever_is_the_baseline():
    comparisons = [compared(-10.0, -12.0, -8.0, 3.0), compared(-1.0, -9.0, 7.0, 5.0)]
    forth, back = (
        mean_difference(comparisons, *arms, "wer") for arms in (("attention", "none"), ("none", "attention"))
    )
    assert back == pytest.approx((-forth.difference, -forth.high, -forth.low, forth.p_value))
    assert difference_between(comparisons[0], "none", "attention", "wer").joint.low == 8


def test_arms_that_are_not_compared_are_named():
    alone = replace(compared(-1.0, -2.0, 0.0), comparisons=())
    with pytest.raises(KeyError, match="toy does not compare 'attention' with 'none'"):
        mean_difference([alone], "attention", "none", "wer")
