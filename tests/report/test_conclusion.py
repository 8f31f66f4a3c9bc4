"""The conclusions of a comparison, sentence by sentence."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from seq2seq_attn.report.conclusion import conclusion, evidence, missing_runs, summary
from seq2seq_attn.results.breakdowns import Breakdown, Breakdowns, GroupResult, GroupScore, Rate, Rates
from seq2seq_attn.results.differences import JointTest, PairedComparison, Significance
from seq2seq_attn.results.results import ArmResult, MetricRecord, MissingRun, Results, Spread

BLEU = MetricRecord("bleu", "BLEU", 1, "higher", "", floor=1.0)
AER = MetricRecord("aer", "AER", 3, "lower", "")


def arm(name, score, seeds=(1, 2, 3), **others):
    return ArmResult(name, 7, seeds, {"bleu": Spread(score, 0.0, score - 1, score + 1), **others}, 1.0)


def bands(short=40.0, long=10.0, half=2.0, sizes=(50, 30)):
    """Scores by length: a long and a short band, and one of two sentences."""
    scores = (short, half, sizes[0]), (long, half, sizes[1]), (99.0, 1.0, 2)
    return tuple(group(score, half, sentences) for score, half, sentences in scores)


def pair(difference, low, high, p, joint=None, arm="a"):
    """A comparison whose corrected p-value by randomization is `p`; the other p-values must not matter."""
    return PairedComparison(arm, "b", difference, low, high, 0.5, 0.5, Significance(0.5, p), joint)


def jointly(p, low=0.5, high=3.5, detectable=4.06):
    return JointTest(0.001, p, low, high, 3.3, False, detectable)


class AgainstB(Results):
    """Results whose baseline is b, even without a comparison."""

    baseline = "b"


NOWHERE = Breakdowns((), (), None)


def sentences_for(*comparisons, arms=None, where=NOWHERE, by_length=None, sentences=82, **others):
    arms = arms or (arm("a", 30.0), arm("b", 20.0))
    named = [*(each.arm for each in comparisons), *sorted(where.arms)]
    arms += tuple(arm(name, 1.0) for name in dict.fromkeys(named) if name not in {known.name for known in arms})
    groups = {each.name: bands() for each in arms} | (by_length or {})
    lengths = Breakdown("source length", "", ("1-10", "11-20", "21-30"), groups)
    return conclusion(AgainstB("toy", (BLEU, AER), sentences, arms, comparisons, lengths, {}, "", "", "", **{
        "where": where, **others,
    }))  # fmt: skip


OVER = "95 % interval +0.5 to +3.5 over training runs and sentences"


@pytest.mark.parametrize(
    ("difference", "joint", "sentence"),
    [
        (2.0, jointly(0.0002), f"a is better than b by 2.0 BLEU ({OVER}, p < 0.001)."),
        (-2.0, jointly(0.049), f"a is worse than b by 2.0 BLEU ({OVER}, p = 0.049)."),
        (
            2.0,
            jointly(0.05),
            f"a does not differ significantly from b (+2.0 BLEU, {OVER}, p = 0.050; an experiment like this detects a "
            "true difference of 4.1 with 80 % power).",
        ),
        (
            2.0,
            jointly(0.3, detectable=None),
            f"a does not differ significantly from b (+2.0 BLEU, {OVER}, p = 0.300).",
        ),
    ],
)
def test_the_joint_test_alone_says_which_arm_is_better(difference, joint, sentence):
    for p_of_these_runs in (0.0001, 0.9):
        assert sentences_for(pair(difference, 1.0, 3.0, p_of_these_runs, joint))[0] == sentence


def test_the_summary_is_the_conclusion_without_intervals_and_p_values_which_are_a_sentence_of_their_own():
    def results(*comparisons):
        lengths = Breakdown("source length", "", ("1-10", "11-20"), {name: bands()[:2] for name in "ab"})
        arms = (arm("a", 30.0), arm("b", 20.0))
        return AgainstB("toy", (BLEU,), 82, arms, comparisons, lengths, {}, "", "", "")

    found = results(pair(2.0, 1.0, 3.0, 0.01, jointly(0.0002)))
    assert summary(found) == ["a is better than b by 2.0 BLEU.", conclusion(found)[-1]]
    assert evidence(found) == f"a against b: {OVER}, p < 0.001."
    undecided = results(pair(2.0, 1.0, 3.0, 0.01, jointly(0.3)))
    assert summary(undecided)[0] == "a does not differ significantly from b."
    assert evidence(undecided).startswith(f"a against b: +2.0 BLEU, {OVER}, p = 0.300; an experiment like this detects")
    for untested in (results(), results(pair(0.0, 0.0, 0.0, 1.0))):
        assert evidence(untested) == ""


def test_the_summary_begins_with_the_best_arm_even_if_another_differs_more_from_the_baseline():
    arms = (arm("a", 30.0), arm("b", 20.0), arm("bad", 1.0))
    lengths = Breakdown("source length", "", ("1-10", "11-20"), {each.name: bands()[:2] for each in arms})
    worse, better = pair(-19.0, -20.0, -18.0, 0.01, arm="bad"), pair(10.0, 9.0, 11.0, 0.01)
    found = AgainstB("toy", (BLEU,), 82, arms, (worse, better), lengths, {}, "", "", "")
    assert summary(found)[0].startswith("a scored 10.0 BLEU higher than b")
    assert evidence(found).startswith("a against b: ")
    assert conclusion(found)[0].startswith("bad scored 19.0 BLEU lower than b")


SENTENCES = "95 % interval {} over test sentences, p {}"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            (12.34, 10.0, 14.2, 0.0002),
            f"a scored 12.3 BLEU higher than b in this training ({SENTENCES.format('+10.0 to +14.2', '< 0.001')}).",
        ),
        (
            (-3.0, -5.0, -1.0, 0.004),
            f"a scored 3.0 BLEU lower than b in this training ({SENTENCES.format('-5.0 to -1.0', '= 0.004')}).",
        ),
        (
            (0.4, -0.3, 1.1, 0.05),
            "a does not differ significantly from b in this training "
            f"(+0.4 BLEU, {SENTENCES.format('-0.3 to +1.1', '= 0.050')}).",
        ),
    ],
)
def test_one_training_says_what_was_seen_and_never_which_arm_is_better(values, sentence):
    single = (arm("a", 30.0, seeds=(1,)), arm("b", 20.0, seeds=(1,)))
    sentences = sentences_for(pair(*values), arms=single)
    assert sentences[0] == sentence
    assert sentences[-1].startswith("Single seed: ")
    assert not any(" is better" in each or " is worse" in each for each in sentences)


def test_without_randomization_the_corrected_p_value_of_the_bootstrap_decides_what_was_seen():
    """Arms with different numbers of runs, one of them a single one."""
    arms = (arm("a", 30.0, seeds=(1,)), arm("b", 20.0, seeds=(1, 2)))

    def sentence(p, p_holm):
        return sentences_for(PairedComparison("a", "b", 1.2, 0.1, 2.3, p, p_holm), arms=arms)[0]

    assert sentence(0.04, 0.12).startswith("a does not differ significantly from b in these training runs (+1.2 BLEU, ")
    assert sentence(0.04, 0.12).endswith("p = 0.120).")
    assert sentence(0.01, 0.03).startswith("a scored 1.2 BLEU higher than b in these training runs")


def test_identical_systems_are_called_the_same():
    assert sentences_for(pair(0.0, 0.0, 0.0, 1.0))[0] == "a and b score the same on every resample of the test set."


def test_a_single_test_sentence_has_neither_interval_nor_p_value():
    (sentence, *_) = sentences_for(pair(4.2, 4.2, 4.2, 1.0))
    assert sentence == "a differs from b by +4.2 BLEU in these training runs; a single test sentence allows no test."


def test_only_the_arms_with_too_few_seeds_are_named():
    arms = (arm("a", 30.0, seeds=(1, 2, 3)), arm("b", 20.0, seeds=(1, 2, 3)), arm("c", 25.0, seeds=(1,)))
    sentences = sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)), arms=arms)
    assert sentences[-1].startswith("Single seed (c): one training per arm compares two models")
    two = (*arms[:2], arm("c", 25.0, seeds=(1, 2)))
    assert sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)), arms=two)[-1].startswith("Two seeds (c): ")


def test_two_seeds_and_few_sentences_are_named():
    two = (arm("a", 30.0, seeds=(1, 2)), arm("b", 20.0, seeds=(1, 2)))
    assert sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)), arms=two)[-1].startswith("Two seeds: ")
    for sizes, beginning in (
        ({"sentences": 29}, "29 test sentences are too few to say which arm is better; use at least 30."),
        ({"sentences": 90, "sources": 15}, "15 different test sentences (90 pairs) are "),
        ({"sentences": 90, "sources": 1}, "One different test sentence (90 pairs) is "),
        ({"sentences": 1}, "One test sentence is too few to say"),
    ):
        assert sentences_for(pair(2.0, 1.0, 3.0, 0.01), arms=two, **sizes)[-1].startswith(beginning)
    assert "seed" not in sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)))[-1]


def test_training_runs_that_score_the_same_are_named():
    sentences = sentences_for(pair(2.0, 1.0, 3.0, 0.01))
    assert sentences[0].startswith("a scored 2.0 BLEU higher than b in these training runs")
    assert sentences[-1].startswith("No training run differs from the next (a; b), as if they were copies of one;")
    assert "No training run" not in sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)))[-1]
    (varied, same) = arm("a", 30.0, bleu=Spread(30.0, 0.5, 29, 31, 28, 32, 28, 32)), arm("b", 20.0)
    assert "(b)" in sentences_for(pair(10.0, 9.0, 11.0, 0.01), arms=(varied, same))[-1]


@pytest.mark.parametrize(("bleu", "is_learned"), [(1.0, True), (0.99, False)])
def test_where_no_arm_has_learned_anything_nothing_is_concluded(bleu, is_learned):
    arms = (replace(arm("a", bleu), unconverged=(1,)), arm("b", 0.2))
    found = sentences_for(pair(bleu - 0.2, 0.1, 0.9, 0.01, jointly(0.001)), arms=arms)
    assert found[0].startswith("a is better than b" if is_learned else "No arm has 1 BLEU or more: nothing was learned")
    assert is_learned or found[1:] == [
        "Still improving when stopped, so that longer training may improve the score: a (seed 1)."
    ]


def test_arms_whose_differing_training_runs_are_the_same_in_pairs_are_not_called_copies():
    varied = tuple(arm(name, 30.0, bleu=Spread(30.0, 0.5, 29, 31, 28, 32, 28, 32)) for name in "ab")
    assert not any("No training run" in each for each in sentences_for(pair(0.0, 0.0, 0.0, 1.0), arms=varied))


def test_arms_that_were_stopped_too_early_are_named():
    arms = (arm("a", 30.0), replace(arm("b", 20.0), unconverged=(1, 3)), replace(arm("c", 1.0), unconverged=(2,)))
    assert "Still improving" in (sentence := sentences_for(arms=arms)[-1])
    assert sentence.endswith(": b (seeds 1, 3), c (seed 2).")


def test_planned_contrasts_follow_and_count_in_the_correction():
    planned = replace(pair(1.0, 0.5, 1.5, 0.01, jointly(0.01)), arm="c", baseline="a")
    arms = (arm("a", 30.0), arm("b", 20.0), arm("c", 31.0))
    sentences = sentences_for(pair(2.0, 1.0, 3.0, 0.01, jointly(0.01)), arms=arms, contrasts=(planned,))
    assert sentences[1].startswith("c is better than a by 1.0 BLEU")
    assert "All p-values are corrected for 2 comparisons (Holm); the intervals are not." in sentences


def test_the_largest_difference_comes_first():
    pairs = [pair(value, value - 1, value + 1, 0.01, arm=name) for name, value in (("x", 2.0), ("y", -9.0))]
    assert [sentence[0] for sentence in sentences_for(*pairs)[:2]] == ["y", "x"]


def test_the_effect_of_length_on_the_best_arm_and_the_baseline():
    arms = (arm("a", 30.0), arm("b", 20.0), arm("c", 25.0))
    assert sentences_for(arms=arms, by_length={"a": bands(50.0, 45.0), "b": bands(10.0, 40.0)}) == [
        "On sentences of 11-20 words, a scores 5.0 BLEU less than on sentences of 1-10 words (45.0 against 50.0).",
        "On sentences of 11-20 words, b scores 30.0 BLEU more than on sentences of 1-10 words (40.0 against 10.0).",
    ]
    (found,) = sentences_for(by_length={"a": bands(50.0, 45.0), "b": bands(10.0, 10.0)}, unit="frames")
    assert found.startswith("On sources of 11-20 frames, a scores 5.0 BLEU less than on sources of 1-10 frames (")


def test_no_effect_of_length_is_claimed_where_intervals_overlap():
    assert sentences_for(by_length={"a": bands(50.0, 45.0, half=2.5), "b": bands(50.0, 49.0)}) == []


@pytest.mark.parametrize(("sources", "claimed"), [(None, True), (30, True), (29, False)])
def test_no_effect_is_claimed_of_a_group_with_few_sources(sources, claimed):
    few = tuple(replace(band, sources=sources) for band in bands()[:2])
    found = sentences_for(by_length={"a": (*few, None), "b": (*few, None)})
    assert any("On sentences of 11-20 words" in sentence for sentence in found) == claimed
    ours, theirs = (replace(group(bleu), sources=sources) for bleu in (40.0, 12.0))
    assert bool(between((ours, group(41.0)), (theirs, group(31.0)))) == claimed


def test_the_alignment_error_rate_of_the_best_arm_and_of_its_rivals():
    best = arm("a", 30.0, aer=Spread(0.1234, 0.0))
    arms = best, arm("b", 20.0)
    assert "The alignment error rate (AER) of a is 0.123." in sentences_for(arms=arms)
    assert (
        "The alignment error rate (AER) of a is 0.123, against 0.600 of a diagonal alignment and 0.900 of a random "
        "alignment." in sentences_for(arms=arms, aer_rivals={"diagonal": 0.6, "random": 0.9})
    )


def group(bleu, half=1.0, sentences=30, bounds=""):
    return GroupResult(sentences, {"bleu": GroupScore(bleu, bleu - half, bleu + half)}, 20.0, bounds)


def added_sentences(*breakdowns, rates=()):
    """The sentences that the breakdowns add."""
    without = sentences_for()
    return [
        sentence for sentence in sentences_for(where=Breakdowns(breakdowns, rates, None)) if sentence not in without
    ]


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
        ((group(40.0), group(30.0), group(20.0)), (group(20.0), group(23.0), group(20.0))),  # the least is in no gain
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


def test_arms_that_do_not_differ_significantly_differ_in_no_group_and_scores_that_are_printed_alike_nowhere():
    alike = Breakdown(
        "rarity", "", ("rare", "common"), {"a": (group(99.96, 0.001),) * 2, "b": (group(99.98, 0.001),) * 2}
    )
    assert added_sentences(alike) == []
    ours, theirs = (group(40.0), group(41.0)), (group(12.0), group(31.0))
    differing = Breakdown("rarity", "", ("rare", "common"), {"a": ours, "b": theirs})
    found = Rates("found", "", ("unseen",), {"a": (Rate(0.9, 0.8, 1.0, 99),), "b": (Rate(0.1, 0.0, 0.2, 99),)})
    for p, sentences in ((0.01, 2), (0.4, 0)):
        tested = pair(2.0, 1.0, 3.0, 0.01, jointly(p))
        told = sentences_for(tested, where=Breakdowns((differing,), (found,), None))
        assert len(told) == len(sentences_for(tested)) + sentences


def test_rates_of_a_few_words_or_sentences_are_not_compared():
    def table(count):
        return Rates("found", "", ("unseen",), {"a": (Rate(1.0, 1.0, 1.0, count),), "b": (Rate(0.0, 0.0, 0.0, count),)})

    assert added_sentences(rates=(table(30),)) == ["Found, a against b: unseen 100.0% against 0.0%."]
    assert added_sentences(rates=(table(29),)) == []
    few = {"sentences": 2}
    assert sentences_for(where=Breakdowns((), (table(30),), None), **few) == sentences_for(**few)


def test_a_trial_that_failed_does_not_leave_out_its_arm():
    missing = [
        MissingRun("a, trial 3", 1, "diverged"),
        MissingRun("c, trial 1", 1, "diverged"),
        MissingRun("c", 1, "x"),
    ]
    results = SimpleNamespace(arms=(arm("a", 30.0), arm("b", 20.0)), missing=missing)
    assert missing_runs(results) == [
        "a, trial 3, seed 1: diverged",
        "c, trial 1, seed 1, whose arm is left out: diverged",
        "c, seed 1, whose arm is left out: x",
    ]
