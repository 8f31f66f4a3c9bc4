"""Arms against their baseline: the tests of `evaluation`, corrected over the arms."""

import random

import pytest

from seq2seq_attn.comparison.arms import differences
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.resampling import approximate_randomisation, paired_bootstrap
from seq2seq_attn.evaluation.significance import detectable_difference, holm, welch

RATES = {"a little better": (0.26, 0.28), "baseline": (0.3, 0.33), "much better": (0.1, 0.12), "alike": (0.31, 0.32)}


def arms(rates):
    """Translations in which this share of each sentence is wrong, one rate per seed."""
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefgh", k=draw.randint(5, 17))) for _ in range(70)]

    def spoil(rate):
        return [" ".join("x" if draw.random() < rate else word for word in line.split()) for line in references]

    return {name: BleuCounts.of([spoil(rate) for rate in each], references) for name, each in rates.items()}


def test_each_arm_is_tested_three_times_and_each_test_corrected_over_the_arms():
    counts = arms(RATES)
    compared = differences(counts, "baseline").comparisons
    assert [(pair.arm, pair.baseline) for pair in compared] == [
        (arm, "baseline") for arm in ("a little better", "much better", "alike")
    ]
    for pair in compared:
        both = counts[pair.arm], counts["baseline"]
        bootstrap, randomisation = paired_bootstrap(*both), approximate_randomisation(*both)
        seeds = welch(*(system.bleu() for system in both))
        assert (pair.bleu_difference, pair.low, pair.high) == (bootstrap.difference, bootstrap.low, bootstrap.high)
        assert pair.p_value == bootstrap.p_value
        assert pair.randomisation.p_value == randomisation.p_value
        assert (pair.seeds.p_value, pair.seeds.low, pair.seeds.high) == (seeds.p_value, seeds.low, seeds.high)
        assert pair.detectable == detectable_difference(bootstrap.standard_error)
        assert pair.seeds.detectable == detectable_difference(seeds.standard_error, seeds.degrees_of_freedom)
    for test in (lambda pair: pair, lambda pair: pair.randomisation, lambda pair: pair.seeds):
        assert [test(pair).p_holm for pair in compared] == holm([test(pair).p_value for pair in compared])
    assert [pair.significant for pair in compared] == [False, True, False]


def test_with_one_seed_there_is_no_test_over_seeds():
    compared = differences(arms({name: rates[:1] for name, rates in RATES.items()}), "baseline")
    assert [pair.seeds for pair in compared.comparisons] == [None, None, None]
    assert set(compared.signatures) == {"paired_bootstrap", "randomisation"}


def test_an_arm_without_a_test_over_seeds_does_not_count_in_the_correction():
    """Two runs with equal translations, in the arm and in the baseline, have no variance."""
    counts = arms(RATES)
    same = BleuCounts(counts["baseline"].counts[[0, 0]], counts["baseline"].metric)
    compared = differences({"same": same, **counts, "baseline": same}, "baseline").comparisons
    assert compared[0].seeds is None
    known = [pair.seeds for pair in compared[1:]]
    assert [seeds.p_holm for seeds in known] == pytest.approx(holm([seeds.p_value for seeds in known]))


def test_a_single_arm_has_no_comparison():
    compared = differences(arms({"baseline": (0.3,)}), "baseline")
    assert compared == ([], {})
