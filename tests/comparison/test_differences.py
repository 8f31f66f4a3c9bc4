"""Arms against each other: the tests of `evaluation`, corrected over all comparisons."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from counted import bleu_counts, chrf_counts

from seq2seq_attn.comparison.arms import Arm, are_paired, differences
from seq2seq_attn.config import PairFiles
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.evaluation.resampling import approximate_randomization, paired_bootstrap
from seq2seq_attn.evaluation.significance import RunScores, detectable_difference, holm, joint_test
from seq2seq_attn.training.config import TrainingConfig

RATES = {
    "a little better": (0.26, 0.28, 0.27),
    "baseline": (0.3, 0.33, 0.31),
    "much better": (0.1, 0.12, 0.11),
    "alike": (0.31, 0.32, 0.3),
}
OTHER = PairFiles(source="other", target="t")
PAIRS = [(arm, "baseline") for arm in RATES if arm != "baseline"]


def arms(rates, sentences=70, weights=None):
    """Translations in which this share of each sentence is wrong, one rate per seed.

    `weights` holds, for each arm, the checksum of the initial weights of its runs; by default, no two arms share any.
    """
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefgh", k=draw.randint(5, 17))) for _ in range(sentences)]

    def spoil(rate):
        return [" ".join("x" if draw.random() < rate else word for word in line.split()) for line in references]

    def arm(name, each):
        translations = [spoil(rate) for rate in each]
        start = {"initial_weights": name if weights is None else weights[name]}
        data = SimpleNamespace(train=PairFiles(source="s", target="t"), longest_training=50)
        config = SimpleNamespace(data=data, text=TextConfig(), training=TrainingConfig())
        runs = [SimpleNamespace(seed=seed, config=config) for seed in range(len(each))]
        counts = {"bleu": bleu_counts(translations, references), "chrf": chrf_counts(translations, references)}
        return Arm(runs, [SimpleNamespace(metrics=start) for _ in each], [], counts)

    return {name: arm(name, each) for name, each in rates.items()}


def copied(arm, runs):
    """The arm with its first run, as often as this."""
    counts = {key: replace(each, counts=each.counts[[0] * runs]) for key, each in arm.counts.items()}
    return arm._replace(counts=counts)


@pytest.fixture(scope="module")
def systems():
    return arms(RATES)


def test_signatures_of_all_numbers_of_runs_are_listed():
    found = differences(arms({"two": (0.3, 0.31), "three": (0.2, 0.21, 0.22), "five": (0.1,) * 5}), [
        ("five", "three"), ("five", "two"),
    ]).signatures  # fmt: skip
    assert [each for each in ("runs:5+3", "runs:5+2") if each in found["paired_bootstrap"]] == ["runs:5+3", "runs:5+2"]
    assert "randomization" not in found


def test_each_pair_is_tested_three_times_and_each_test_corrected_over_all_pairs(systems):
    pairs = [*PAIRS, ("much better", "a little better")]
    compared = differences(systems, pairs).comparisons
    assert [(pair.arm, pair.baseline) for pair in compared] == pairs
    for pair in compared:
        for key, found in {"bleu": pair, "chrf": pair.others["chrf"]}.items():
            both = systems[pair.arm].counts[key], systems[pair.baseline].counts[key]
            bootstrap, joint = paired_bootstrap(*both), joint_test(*map(RunScores.of, both))
            assert (found.difference, found.low, found.high) == (bootstrap.difference, bootstrap.low, bootstrap.high)
            assert (found.joint.p_value, found.joint.low, found.joint.high) == (joint.p_value, joint.low, joint.high)
            assert found.joint.detectable == detectable_difference(joint, comparisons=4)
            assert found.interval == (joint.low, joint.high)
        both = systems[pair.arm].main, systems[pair.baseline].main
        assert pair.p_value == paired_bootstrap(*both).p_value
        assert pair.randomization.p_value == approximate_randomization(*both).p_value
    for test in (
        lambda pair: pair,
        lambda pair: pair.randomization,
        lambda pair: pair.joint,
        lambda pair: pair.others["chrf"].joint,
    ):
        assert [test(pair).p_holm for pair in compared] == holm([test(pair).p_value for pair in compared])
    assert [pair.joint.significant for pair in compared] == [False, True, False, True]


def test_one_run_or_few_sentences_allow_no_verdict():
    single = differences(arms({name: rates[:1] for name, rates in RATES.items()}), PAIRS[:1])
    assert [(pair.joint, pair.others["chrf"].joint) for pair in single.comparisons] == [(None, None)]
    assert set(single.signatures) == {"paired_bootstrap", "randomization"}
    (few,) = differences(arms(RATES, sentences=29), PAIRS[:1]).comparisons
    assert few.joint is None


def test_a_pair_without_a_joint_test_counts_in_the_correction_that_the_report_names(systems):
    """The runs of an arm are copies of one."""
    same = systems["baseline"]
    same = copied(same, 3)
    compared = differences(systems | {"same": same}, [("same", "baseline"), *PAIRS[:2]]).comparisons
    assert compared[0].joint is None
    known = [pair.joint for pair in compared[1:]]
    assert [joint.p_holm for joint in known] == pytest.approx(holm([1.0, *(joint.p_value for joint in known)])[1:])


def test_a_pair_with_different_numbers_of_runs_counts_in_the_correction_of_the_others():
    uneven = arms({name: rates[: 1 if name == "alike" else 3] for name, rates in RATES.items()})
    compared = {pair.arm: pair for pair in differences(uneven, PAIRS).comparisons}
    assert (compared["alike"].randomization, compared["alike"].joint) == (None, None)
    known = [pair.randomization for pair in compared.values() if pair.randomization is not None]
    corrected = sorted(holm([1.0, *(each.p_value for each in known)])[1:])
    assert sorted(each.p_holm for each in known) == pytest.approx(corrected)


def test_runs_that_began_alike_are_paired():
    begun = dict.fromkeys(RATES, "same weights") | {"much better": "others"}
    systems = arms(RATES, weights=begun)
    compared = differences(systems, PAIRS).comparisons
    assert [pair.joint.paired for pair in compared] == [True, False, True]
    both = systems["alike"], systems["baseline"]
    assert compared[2].joint.p_value == joint_test(*(RunScores.of(arm.main) for arm in both), paired=True).p_value


@pytest.mark.parametrize(
    "change",
    [
        lambda run: SimpleNamespace(seed=run.seed + 1, config=run.config),
        lambda run: run_with(run, training=TrainingConfig(batch_size=7)),
        lambda run: run_with(run, text=TextConfig(lowercase=True)),
        lambda run: run_with(run, data=SimpleNamespace(**vars(run.config.data) | {"train": OTHER})),
        lambda run: run_with(run, data=SimpleNamespace(**vars(run.config.data) | {"longest_training": 20})),
    ],
)
def test_other_seeds_batches_or_texts_are_not_paired(change):
    one, other, *_ = arms(RATES, weights=dict.fromkeys(RATES, "same weights")).values()
    assert are_paired(one, other)
    assert not are_paired(one, other._replace(runs=[change(run) for run in other.runs]))


def run_with(run, **changes):
    return SimpleNamespace(seed=run.seed, config=SimpleNamespace(**vars(run.config) | changes))


def test_one_sentence_and_identical_systems_are_no_evidence():
    (pair,) = differences(arms({"a": (0.1, 0.2), "baseline": (0.8, 0.9)}, sentences=1), [("a", "baseline")]).comparisons
    assert pair.randomization.p_value > 0.4
    assert pair.low == pair.high == pytest.approx(pair.difference, abs=1e-4)
    assert pair.joint is None
    systems = arms({"a": (0.1, 0.2)})
    other = systems["a"]._replace(tested=[SimpleNamespace(metrics={"initial_weights": "b"})] * 2)
    (same,) = differences(systems | {"b": other}, [("a", "b")]).comparisons
    assert (same.difference, same.low, same.high, same.randomization.p_value) == (0, 0, 0, 1)
    assert not same.joint.significant


def test_copies_of_one_training_say_nothing_about_others():
    systems = arms({"a": (0.1, 0.2), "baseline": (0.3, 0.4)})
    first = {name: copied(arm, 2) for name, arm in systems.items()}
    assert differences(systems, [("a", "baseline")]).comparisons[0].joint is not None
    (pair,) = differences(first, [("a", "baseline")]).comparisons
    assert (pair.joint, pair.others["chrf"].joint) == (None, None)
    for mixed in (first | {"baseline": systems["baseline"]}, first | {"a": systems["a"]}):
        (pair,) = differences(mixed, [("a", "baseline")]).comparisons
        assert (pair.joint, pair.others["chrf"].joint) == (None, None)


def test_a_single_arm_has_no_comparison(systems):
    assert differences({"baseline": systems["baseline"]}, []) == ([], {})
