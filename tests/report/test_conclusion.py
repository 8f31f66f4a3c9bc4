"""What a comparison permits to conclude, sentence by sentence."""

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


def pair(difference, low, high, p, seeds=None, arm="a", from_before=False):
    """A comparison whose p by randomisation, corrected, is `p`, and whose other p-values must not matter."""
    if from_before:
        return PairedComparison(arm, "b", difference, low, high, p)
    return PairedComparison(arm, "b", difference, low, high, 0.5, 0.5, 1.74, Significance(0.5, p), seeds)


def said(*comparisons, arms=None, where=None):
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
def test_which_is_better_and_by_how_much_or_what_would_have_been_seen(values, sentence):
    assert said(pair(*values))[0] == sentence


def test_the_corrected_p_value_decides_and_not_the_interval():
    assert "does not differ significantly" in said(pair(1.2, 0.1, 2.3, 0.05))[0]
    assert "is better" in said(pair(1.2, -0.1, 2.5, 0.049))[0]


def test_in_files_from_before_the_interval_decides():
    before = pair(0.4, -0.3, 1.1, 0.03, from_before=True)
    assert said(before)[0] == (
        "a does not differ significantly from b: +0.4 BLEU (95 % interval -0.3 to +1.1, p = 0.030)."
    )
    assert "is better" in said(pair(1.2, 0.1, 2.3, 0.06, from_before=True))[0]


WELCH = "95 % interval +0.5 to +3.5, p = {}, Welch's t test over seeds"


@pytest.mark.parametrize(
    ("p", "p_seeds", "sentence"),
    [
        (0.01, 0.02, f"The seeds agree: a is better than b with other seeds ({WELCH.format('0.020')})."),
        (
            0.01,
            0.07,
            f"This may not hold for other seeds: a against b, {WELCH.format('0.070')}; "
            "with this number of seeds a true difference of 4.1 is detected with 80 % power.",
        ),
        (
            0.3,
            0.02,
            f"The seeds agree, but only on these sentences: a is better than b ({WELCH.format('0.020')}); "
            "whether it holds for other sentences needs a larger test set.",
        ),
        (
            0.3,
            0.07,
            f"This may not hold for other seeds: a against b, {WELCH.format('0.070')}; "
            "with this number of seeds a true difference of 4.1 is detected with 80 % power.",
        ),
    ],
)
def test_whether_the_seeds_agree(p, p_seeds, sentence):
    seeds = AcrossSeeds(0.001, p_seeds, 0.5, 3.5, 3.3, 4.06)
    assert said(pair(2.0, 1.0, 3.0, p, seeds))[1] == sentence


def test_the_largest_difference_comes_first():
    pairs = [pair(value, value - 1, value + 1, 0.01, arm=name) for name, value in (("x", 2.0), ("y", -9.0))]
    assert [sentence[0] for sentence in said(*pairs)[:2]] == ["y", "x"]


def test_the_correction_is_named_where_there_was_one():
    two = [pair(2.0, 1.0, 3.0, 0.01, arm=name) for name in "ac"]
    assert "Each p is corrected for the 2 comparisons made (Holm)" in " ".join(said(*two))
    assert "Holm" not in " ".join(said(two[0]))
    assert "Holm" not in " ".join(said(*[pair(2.0, 1.0, 3.0, 0.01, from_before=True)] * 2))


def test_what_length_does_to_the_best_arm_and_the_baseline():
    arms = (arm("a", 30.0, 50.0, 45.0), arm("b", 20.0, 40.0, 10.0), arm("c", 25.0))
    assert said(arms=arms) == [
        "On sentences of 11-20 words a keeps 90% of its BLEU on those of 1-10 (50.0 to 45.0).",
        "On sentences of 11-20 words b keeps 25% of its BLEU on those of 1-10 (40.0 to 10.0).",
    ]


def test_an_alignment_is_spoken_of_where_the_best_arm_has_one():
    best = arm("a", 30.0, aer=Spread(0.1234, 0.0))
    assert "a aligns words with an error rate (AER) of 0.123." in said(arms=(best, arm("b", 20.0)))


def test_a_single_seed_is_warned_of():
    assert "One seed" in said(arms=(arm("a", 30.0, seeds=(1,)), arm("b", 20.0)))[-1]
    assert not any("seed" in sentence for sentence in said())


def group(bleu, half=1.0, sentences=30, bounds=""):
    return GroupResult(sentences, 20.0, bleu, bleu - half, bleu + half, 50.0, bounds)


def of(*breakdowns, rates=()):
    """What is said beyond what is said without."""
    return [sentence for sentence in said(where=Breakdowns(breakdowns, rates)) if sentence not in said()]


def between(ours, theirs, groups=("rare", "common", "lost")):
    return of(Breakdown("rarity", "", groups[: len(ours)], {"a": tuple(ours), "b": tuple(theirs)}))


def test_where_the_best_arm_gains_most_and_least_is_said_if_the_gains_lie_apart():
    ours, theirs = (group(40.0), group(41.0), group(30.0)), (group(12.0), group(31.0), group(10.0))
    # gains of 28, 10 and 20, each uncertain by 2
    (sentence,) = between(ours, theirs)
    assert sentence == (
        "By rarity, a gains most over b at rare (40.0 against 12.0 BLEU) and least at common (41.0 against 31.0 BLEU)."
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((group(40.0), group(30.0)), (group(22.0), group(14.0))),  # gains of 18 and 16, each uncertain by 2
        ((group(40.0), group(30.0)), (group(22.0), group(29.0))),  # the second gain is none
        ((group(40.0), group(30.0)), (group(22.0), None)),
        ((group(40.0), group(30.0)), (group(22.0), group(20.0, sentences=29))),
    ],
)
def test_nothing_is_said_of_groups_that_the_numbers_do_not_tell_apart(ours, theirs):
    assert between(ours, theirs) == []


def test_an_arm_with_groups_of_its_own_is_compared_with_itself_alone():
    def entropy(first, last):
        groups = {
            "a": (group(first, bounds="to 1 bits"), group(1.0, bounds="1 to 2 bits"), group(last, bounds="over 2 bits"))
        }
        return of(Breakdown("entropy", "", ("sharpest", "middle", "most even"), groups))

    assert entropy(50.0, 40.0) == [
        "By entropy, a has 50.0 BLEU on the sharpest third of the sentences and 40.0 on the most even."
    ]
    assert entropy(50.0, 49.0) == []


def test_rates_are_said_where_their_intervals_lie_apart():
    def rate(value):
        return Rate(value, value - 0.01, value + 0.01, 100)

    table = {"a": (rate(0.02), rate(0.5), rate(0.9)), "b": (rate(0.1), rate(0.51), None), "c": (None, None, None)}
    rates = Rates("said twice", "", ("words", "sentences", "length"), table)
    assert of(rates=(rates,)) == ["Said twice, a against b: words 2.0% against 10.0%."]
