"""The conclusions of a comparison, sentence by sentence."""

from types import SimpleNamespace

import pytest

from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.results.results import (
    AcrossSeeds,
    ArmResult,
    BandResult,
    Breakdown,
    Breakdowns,
    GroupResult,
    PairedComparison,
    Rate,
    Rates,
    Significance,
    Spread,
)


def arm(name, bleu, short=40.0, long=10.0, seeds=(1, 2), aer=None):
    spread, other = Spread(bleu, 0.0, bleu - 1, bleu + 1), Spread(1.0, 0.0)
    bands = (BandResult(1, 10, 50, short), BandResult(11, 20, 30, long), BandResult(21, 30, 2, 99.0))
    return ArmResult(name, 7, seeds, spread, None, other, other, bands, aer, 1.0)


def pair(difference, low, high, p, seeds=None, arm="a", is_old=False):
    """A comparison whose corrected p-value by randomisation is `p`; the other p-values must not matter."""
    if is_old:
        return PairedComparison(arm, "b", difference, low, high, p)
    return PairedComparison(arm, "b", difference, low, high, 0.5, 0.5, 1.74, Significance(0.5, p), seeds)


def sentences_for(*comparisons, arms=None, where=None):
    arms = arms or (arm("a", 30.0), arm("b", 20.0))
    return conclusion(SimpleNamespace(arms=arms, comparisons=comparisons, baseline="b", where=where, note=""))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            (12.34, 10.0, 14.2, 0.0002),
            "a is better than b by 12.3 BLEU (95 % interval +10.0 to +14.2, p < 0.001).",
        ),
        ((-3.0, -5.0, -1.0, 0.004), "a is worse than b by 3.0 BLEU (95 % interval -5.0 to -1.0, p = 0.004)."),
        (
            (0.4, -0.3, 1.1, 0.21),
            "a does not differ significantly from b: +0.4 BLEU (95 % interval -0.3 to +1.1, p = 0.210); "
            "on a test set like this a true difference of 1.7 is detected with 80 % power.",
        ),
    ],
)
def test_the_difference_and_its_direction_or_the_detectable_difference(values, sentence):
    assert sentences_for(pair(*values))[0] == sentence


def test_the_corrected_p_value_decides_and_not_the_interval():
    assert "does not differ significantly" in sentences_for(pair(1.2, 0.1, 2.3, 0.05))[0]
    assert "is better" in sentences_for(pair(1.2, -0.1, 2.5, 0.049))[0]


def test_in_older_files_the_interval_decides():
    before = pair(0.4, -0.3, 1.1, 0.03, is_old=True)
    assert sentences_for(before)[0] == (
        "a does not differ significantly from b: +0.4 BLEU (95 % interval -0.3 to +1.1, p = 0.030)."
    )
    assert "is better" in sentences_for(pair(1.2, 0.1, 2.3, 0.06, is_old=True))[0]


WELCH = "95 % interval +0.5 to +3.5, p = {}, Welch's t test over seeds"


@pytest.mark.parametrize(
    ("p", "p_seeds", "sentence"),
    [
        (0.01, 0.02, f"This also holds over seeds: a is better than b ({WELCH.format('0.020')})."),
        (
            0.01,
            0.07,
            f"This may not hold for other seeds: a against b, {WELCH.format('0.070')}; "
            "with this number of seeds a true difference of 4.1 is detected with 80 % power.",
        ),
        (
            0.3,
            0.02,
            f"Over seeds, a is better than b on this test set ({WELCH.format('0.020')}); "
            "a larger test set is needed to show whether this holds for other sentences.",
        ),
        (
            0.3,
            0.07,
            f"This may not hold for other seeds: a against b, {WELCH.format('0.070')}; "
            "with this number of seeds a true difference of 4.1 is detected with 80 % power.",
        ),
    ],
)
def test_the_test_over_seeds(p, p_seeds, sentence):
    seeds = AcrossSeeds(0.001, p_seeds, 0.5, 3.5, 3.3, 4.06)
    assert sentences_for(pair(2.0, 1.0, 3.0, p, seeds))[1] == sentence


def test_the_largest_difference_comes_first():
    pairs = [pair(value, value - 1, value + 1, 0.01, arm=name) for name, value in (("x", 2.0), ("y", -9.0))]
    assert [sentence[0] for sentence in sentences_for(*pairs)[:2]] == ["y", "x"]


def test_a_correction_of_p_values_is_named():
    two = [pair(2.0, 1.0, 3.0, 0.01, arm=name) for name in "ac"]
    assert "All p-values are corrected for 2 comparisons (Holm)" in " ".join(sentences_for(*two))
    assert "Holm" not in " ".join(sentences_for(two[0]))
    assert "Holm" not in " ".join(sentences_for(*[pair(2.0, 1.0, 3.0, 0.01, is_old=True)] * 2))


def test_the_effect_of_length_on_the_best_arm_and_the_baseline():
    arms = (arm("a", 30.0, 50.0, 45.0), arm("b", 20.0, 40.0, 10.0), arm("c", 25.0))
    assert sentences_for(arms=arms) == [
        "On sentences of 11-20 words, a retains 90% of its BLEU on sentences of 1-10 words (45.0 against 50.0).",
        "On sentences of 11-20 words, b retains 25% of its BLEU on sentences of 1-10 words (10.0 against 40.0).",
    ]


def test_the_alignment_error_rate_of_the_best_arm():
    best = arm("a", 30.0, aer=Spread(0.1234, 0.0))
    assert "The alignment error rate (AER) of a is 0.123." in sentences_for(arms=(best, arm("b", 20.0)))


def test_a_single_seed_gives_a_warning():
    assert "Single seed" in sentences_for(arms=(arm("a", 30.0, seeds=(1,)), arm("b", 20.0)))[-1]
    assert not any("seed" in sentence for sentence in sentences_for())


def group(bleu, half=1.0, sentences=30, bounds=""):
    return GroupResult(sentences, 20.0, bleu, bleu - half, bleu + half, 50.0, bounds)


def added_sentences(*breakdowns, rates=()):
    """The sentences that the breakdowns add."""
    without = sentences_for()
    return [sentence for sentence in sentences_for(where=Breakdowns(breakdowns, rates)) if sentence not in without]


def between(ours, theirs, groups=("rare", "common", "lost")):
    return added_sentences(Breakdown("rarity", "", groups[: len(ours)], {"a": tuple(ours), "b": tuple(theirs)}))


def test_groups_with_the_largest_and_smallest_gain_if_their_intervals_are_disjoint():
    ours, theirs = (group(40.0), group(41.0), group(30.0)), (group(12.0), group(31.0), group(10.0))
    # gains of 28, 10 and 20, each uncertain by 2
    (sentence,) = between(ours, theirs)
    assert sentence == (
        "Grouped by rarity, a gains most over b for rare (40.0 against 12.0 BLEU) "
        "and least for common (41.0 against 31.0 BLEU)."
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((group(40.0), group(30.0)), (group(22.0), group(14.0))),  # gains of 18 and 16, each uncertain by 2
        ((group(40.0), group(30.0)), (group(22.0), group(29.0))),  # the second difference is not a gain
        ((group(40.0), group(30.0)), (group(22.0), None)),
        ((group(40.0), group(30.0)), (group(22.0), group(20.0, sentences=29))),
    ],
)
def test_no_sentence_about_groups_whose_gains_do_not_differ(ours, theirs):
    assert between(ours, theirs) == []


def test_an_arm_with_its_own_groups_is_only_compared_with_itself():
    def entropy(first, last):
        groups = {
            "a": (group(first, bounds="to 1 bits"), group(1.0, bounds="1 to 2 bits"), group(last, bounds="over 2 bits"))
        }
        return added_sentences(Breakdown("entropy", "", ("sharpest", "middle", "most even"), groups))

    assert entropy(50.0, 40.0) == [
        "Grouped by entropy, a has 50.0 BLEU on the sharpest third of the sentences and 40.0 on the most even third."
    ]
    assert entropy(50.0, 49.0) == []


def test_rates_whose_intervals_are_disjoint_are_named():
    def rate(value):
        return Rate(value, value - 0.01, value + 0.01, 100)

    table = {"a": (rate(0.02), rate(0.5), rate(0.9)), "b": (rate(0.1), rate(0.51), None), "c": (None, None, None)}
    rates = Rates("said twice", "", ("words", "sentences", "length"), table)
    assert added_sentences(rates=(rates,)) == ["Said twice, a against b: words 2.0% against 10.0%."]
