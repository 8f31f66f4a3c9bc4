"""What a comparison permits to conclude, sentence by sentence."""

from types import SimpleNamespace

import pytest

from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.results import ArmResult, BandResult, Comparison, Spread


def arm(name, bleu, short=40.0, long=10.0, seeds=(1, 2), aer=None):
    spread, other = Spread(bleu, 0.0, bleu - 1, bleu + 1), Spread(1.0, 0.0)
    bands = (BandResult(1, 10, 50, short), BandResult(11, 20, 30, long), BandResult(21, 30, 2, 99.0))
    return ArmResult(name, 7, seeds, spread, None, other, other, bands, aer, 1.0)


def said(*comparisons, arms=None):
    arms = arms or (arm("a", 30.0), arm("b", 20.0))
    return conclusion(SimpleNamespace(arms=arms, comparisons=comparisons, baseline="b"))


@pytest.mark.parametrize(
    ("difference", "low", "high", "p", "sentence"),
    [
        (12.34, 10.0, 14.2, 0.0002, "a is better than b by 12.3 BLEU (95 % interval +10.0 to +14.2, p < 0.001)."),
        (-3.0, -5.0, -1.0, 0.004, "a is worse than b by 3.0 BLEU (95 % interval -5.0 to -1.0, p = 0.004)."),
        (
            0.4,
            -0.3,
            1.1,
            0.21,
            "a is not certainly different from b: +0.4 BLEU (95 % interval -0.3 to +1.1, p = 0.210).",
        ),
    ],
)
def test_which_is_better_and_how_certain_that_is(difference, low, high, p, sentence):
    assert said(Comparison("a", "b", difference, low, high, p))[0] == sentence


def test_the_largest_difference_comes_first():
    pairs = [Comparison(name, "b", value, value - 1, value + 1, 0.01) for name, value in (("x", 2.0), ("y", -9.0))]
    assert [sentence[0] for sentence in said(*pairs)[:2]] == ["y", "x"]


def test_what_length_does_to_the_best_arm_and_the_baseline():
    arms = (arm("a", 30.0, 50.0, 45.0), arm("b", 20.0, 40.0, 10.0), arm("c", 25.0))
    assert said(arms=arms) == [
        "On sentences of 11-20 words a keeps 90% of its BLEU on those of 1-10 (50.0 to 45.0).",
        "On sentences of 11-20 words b keeps 25% of its BLEU on those of 1-10 (40.0 to 10.0).",
    ]


def test_an_alignment_is_spoken_of_where_the_best_arm_has_one():
    best = arm("a", 30.0, aer=Spread(0.1234, 0.0))
    assert "Read as an alignment, a has an error rate (AER) of 0.123." in said(arms=(best, arm("b", 20.0)))


def test_a_single_seed_is_warned_of():
    assert "One seed" in said(arms=(arm("a", 30.0, seeds=(1,)), arm("b", 20.0)))[-1]
    assert not any("seed" in sentence for sentence in said())
