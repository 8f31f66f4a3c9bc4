"""Bootstrap and randomisation are those of sacrebleu, and keep their levels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu import BLEU
from sacrebleu.significance import PairedTest
from scipy.stats import binom

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import bleu
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.resampling import BLOCK, approximate_randomisation, bleu_interval, paired_bootstrap
from seq2seq_attn.evaluation.significance import detectable_difference


def test_the_interval_of_one_run_is_that_of_sacrebleus_command(references, spoil, sacrebleu_command):
    hypotheses = spoil(references, 0.3, seed=2)
    printed = sacrebleu_command(references, [hypotheses], "--confidence", "-w", "10")
    interval = bleu_interval(BleuCounts.of([hypotheses], references))
    assert interval.mean == pytest.approx(printed["confidence_mean"], abs=1e-9)
    assert (interval.high - interval.low) / 2 == pytest.approx(printed["confidence_var"], abs=1e-9)
    assert interval.low < printed["score"] < interval.high


@pytest.mark.parametrize("rate", [0.25, 0.3, 0.36])  # p about 0.03, 0.17 and 0.08
def test_the_paired_test_of_one_run_each_is_that_of_sacrebleus_command(references, spoil, sacrebleu_command, rate):
    system, baseline = spoil(references, rate, seed=2), spoil(references, 0.3, seed=3)
    options = "--paired-bs", "--paired-bs-n", "300", "-tok", "intl", "-lc"
    of_baseline, of_system = (row["BLEU"] for row in sacrebleu_command(references, [baseline, system], *options))
    ours, theirs = (BleuCounts.of([lines], references, "intl", lowercase=True) for lines in (system, baseline))
    result = paired_bootstrap(ours, theirs, resamples=300)
    assert result.p_value == of_system["p_value"]
    assert result.difference == of_system["score"] - of_baseline["score"]
    interval = bleu_interval(ours, resamples=300)
    assert (interval.high - interval.low) / 2 == of_system["ci"]


def test_the_signature_is_sacrebleus_and_says_when_runs_were_pooled(references, spoil, sacrebleu_command):
    lines = spoil(references, 0.3, seed=2)
    printed = sacrebleu_command(references, [lines], "--confidence")
    system, baseline = (BleuCounts.of([each], references) for each in (lines, references))
    assert paired_bootstrap(system, baseline).signature == printed["signature"]
    pooled = paired_bootstrap(BleuCounts.of([lines] * 3, references), baseline, resamples=70, seed=6)
    assert "|bs:70|seed:6|" in pooled.signature
    assert "|runs:3+1|version:" in pooled.signature


def test_pooled_runs_score_the_mean_of_their_bleu_on_each_resample(references, spoil):
    """Against the plain computation: BLEU of the resampled lines themselves."""
    references = references[:37]
    system = [spoil(references, 0.3, seed) for seed in (2, 3)]
    baseline = [spoil(references, 0.35, seed) for seed in (4, 5, 6)]
    picks = np.random.default_rng(11).choice(37, size=(80, 37), replace=True)

    def mean_bleu(runs, rows):
        lines = [references[row] for row in rows]
        return np.mean([bleu([run[row] for row in rows], lines).value for run in runs])

    systems, baselines = ([mean_bleu(runs, rows) for rows in picks] for runs in (system, baseline))
    differences = np.subtract(systems, baselines)
    ours, theirs = (BleuCounts.of(runs, references) for runs in (system, baseline))
    result = paired_bootstrap(ours, theirs, resamples=80, seed=11)
    assert result.difference == pytest.approx(mean_bleu(system, range(37)) - mean_bleu(baseline, range(37)))
    # 80 // 40 = 2 resamples are cut off at each end
    assert [result.low, result.high] == pytest.approx(np.sort(differences)[[2, -3]], abs=1e-4)
    assert result.standard_error == pytest.approx(np.std(differences, ddof=1), abs=1e-4)
    centred = np.abs(differences) - np.abs(differences).mean()
    assert result.p_value == (1 + np.sum(centred > abs(result.difference))) / 81

    interval = bleu_interval(ours, resamples=80, seed=11)
    assert interval.mean == pytest.approx(np.mean(systems), abs=1e-4)
    assert [interval.low, interval.high] == pytest.approx(np.sort(systems)[[2, -3]], abs=1e-4)


def test_identical_systems_differ_by_nothing_and_not_significantly(references, spoil):
    system = BleuCounts.of([spoil(references, 0.3, seed=2)], references)
    result = paired_bootstrap(system, system)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_swapping_the_systems_negates_the_difference_and_keeps_the_p_value(references, spoil):
    lines = spoil(references, 0.3, seed=2), spoil(references, 0.4, seed=3)
    system, baseline = (BleuCounts.of([each], references) for each in lines)
    there, back = (paired_bootstrap(*pair) for pair in ((system, baseline), (baseline, system)))
    assert (there.difference, there.low, there.high) == (-back.difference, -back.high, -back.low)
    assert there.p_value == back.p_value


def test_the_interval_of_the_difference_covers_the_true_one_about_as_often_as_promised(references, spoil):
    """Test sets drawn from a population on which the true difference is known."""
    population = references * 20
    system, baseline = spoil(population, 0.3, seed=2), spoil(population, 0.34, seed=3)
    truth = bleu(system, population).value - bleu(baseline, population).value
    assert truth > 2
    draw, covered = random.Random(4), 0
    for _ in range(60):
        rows = draw.sample(range(len(population)), 60)
        ours, theirs, lines = ([column[row] for row in rows] for column in (system, baseline, population))
        result = paired_bootstrap(BleuCounts.of([ours], lines), BleuCounts.of([theirs], lines), resamples=200)
        covered += result.low <= truth <= result.high
    # 95 % of 60 is 57; with a right interval, 50 or fewer come once in 1,000 seeds, 60 once in 20
    assert 51 <= covered < 60


def counted(references, *systems):
    """Each system as one run."""
    return [BleuCounts.of([system], references) for system in systems]


@pytest.mark.parametrize("rate", [0.25, 0.3, 0.36])  # p about 0.02, 0.43 and 0.06
def test_one_run_each_has_the_p_value_of_sacrebleus_command(references, spoil, sacrebleu_command, rate):
    system, baseline = spoil(references, rate, seed=2), spoil(references, 0.3, seed=3)
    options = "--paired-ar", "--paired-ar-n", "800", "-tok", "intl", "-lc"
    of_baseline, of_system = (row["BLEU"] for row in sacrebleu_command(references, [baseline, system], *options))
    ours, theirs = (BleuCounts.of([lines], references, "intl", lowercase=True) for lines in (system, baseline))
    result = approximate_randomisation(ours, theirs, trials=800)
    assert 800 % BLOCK, "the last block is a short one"
    assert result.p_value == of_system["p_value"]
    assert result.difference == of_system["score"] - of_baseline["score"]


def test_the_signature_of_randomisation_is_sacrebleus_and_says_when_runs_were_pooled(references, spoil):
    system = spoil(references, 0.3, seed=2)
    signatures, _ = PairedTest([("b", references), ("s", system)], {"BLEU": BLEU()}, [references], "ar", 70)()
    ours, theirs = counted(references, system, references)
    assert approximate_randomisation(ours, theirs, trials=70).signature == str(signatures["BLEU"])
    runs = [BleuCounts.of([lines] * 3, references) for lines in (system, references)]
    assert "|runs:3+3|" in approximate_randomisation(*runs, trials=70).signature


def test_pooled_runs_are_exchanged_one_by_one_with_a_coin_a_sentence(references, spoil):
    """Against the plain computation: BLEU of the exchanged lines themselves."""
    references = references[:37]
    system = [spoil(references, 0.3, seed) for seed in (2, 3)]
    baseline = [spoil(references, 0.35, seed) for seed in (4, 5)]
    coins = np.random.default_rng(11).integers(2, size=(80, 37), dtype=bool)

    def difference(heads):
        exchanged = [
            [[pair[head], pair[not head]] for *pair, head in zip(ours, theirs, heads.astype(int), strict=True)]
            for ours, theirs in zip(system, baseline, strict=True)
        ]
        scores = [[bleu(list(side), references).value for side in zip(*run, strict=True)] for run in exchanged]
        return np.subtract(*np.mean(scores, axis=0))

    observed = difference(np.zeros(37))
    result = approximate_randomisation(
        *(BleuCounts.of(runs, references) for runs in (system, baseline)), trials=80, seed=11
    )
    assert result.difference == pytest.approx(observed)
    assert result.p_value == (1 + sum(abs(difference(heads)) >= abs(observed) for heads in coins)) / 81


@pytest.mark.parametrize(("sentences", "p"), [(0, 1), (1, 1), (2, 1 / 2), (3, 1 / 4), (6, 1 / 32)])
def test_systems_that_differ_in_few_sentences_are_as_different_as_their_coins_allow(references, spoil, sentences, p):
    """All in one's favour: only the coins that leave them or turn all of them round give as much, 2 of 2^n."""
    spoilt = spoil(references, 0.6, seed=2)
    ours, theirs = counted(references, references, spoilt[:sentences] + references[sentences:])
    assert all(a != b for a, b in zip(spoilt[:6], references, strict=False))
    assert approximate_randomisation(ours, theirs).p_value == pytest.approx(p, rel=0.15)


def test_swapping_the_systems_negates_the_difference_and_keeps_the_p_value_of_randomisation(references, spoil):
    pair = counted(references, spoil(references, 0.3, seed=2), spoil(references, 0.35, seed=3))
    there, back = approximate_randomisation(*pair), approximate_randomisation(*reversed(pair))
    assert (there.difference, there.p_value) == (-back.difference, back.p_value)
    assert 0.001 < there.p_value < 0.999


def test_systems_of_unequal_numbers_of_runs_cannot_be_exchanged(references):
    two, three = (BleuCounts.of([references] * runs, references) for runs in (2, 3))
    with pytest.raises(UserError, match="one system has 2 and the other 3; give both the same number"):
        approximate_randomisation(two, three)


RATES = {"baseline": (0.3, 2), "as good": (0.3, 3), "better": (0.25, 4)}  # how much is spoilt, and with which luck


@pytest.fixture(scope="module", params=[100, pytest.param(1600, marks=pytest.mark.slow)])
def population(request, references, spoil):
    """Counts of the population of sentences for each system: copies of the references, corrupted independently."""
    lines = references * request.param
    return {name: BleuCounts.of([spoil(lines, *luck)], lines) for name, luck in RATES.items()}


def draw(population, name, sentences):
    """As many test sets as the population holds, of a system and the baseline; no sentence is in two of them."""
    pair = population[name], population["baseline"]
    order = np.random.default_rng(7).permutation(pair[0].sentences)
    return [
        [BleuCounts(system.counts[:, order[start : start + sentences]], system.metric) for system in pair]
        for start in range(0, len(order) - sentences + 1, sentences)
    ]


def as_often_as(share, found, of):
    """Whether the number found is one that comes in 999 of 1,000 cases where the share is the true one."""
    low, high = binom.ppf([0.0005, 0.9995], of, share)
    return low <= found <= high


def test_a_difference_of_nothing_is_significant_in_one_of_twenty_test_sets(population):
    test_sets = draw(population, "as good", sentences=29)
    tests = [approximate_randomisation(*pair, trials=199, seed=seed) for seed, pair in enumerate(test_sets)]
    for level in (0.05, 0.2, 0.5):
        assert as_often_as(level, sum(test.p_value <= level for test in tests), len(tests))


def test_sacrebleus_bootstrap_finds_it_significant_twice_as_often(population):
    test_sets = draw(population, "as good", sentences=47)
    tests = [paired_bootstrap(*pair, resamples=200, seed=seed) for seed, pair in enumerate(test_sets)]
    assert 0.08 < np.mean([test.p_value < 0.05 for test in tests]) < 0.15


def test_the_detectable_difference_is_found_in_four_of_five_test_sets(population):
    """The test sets are made so large that the difference there is becomes the detectable one."""
    truth = float(population["better"].bleu()[0] - population["baseline"].bleu()[0])
    small = draw(population, "better", sentences=60)[:40]
    detectable = detectable_difference(np.mean([paired_bootstrap(*pair).standard_error for pair in small]))
    test_sets = draw(population, "better", sentences=round(60 * (detectable / truth) ** 2))
    found = sum(approximate_randomisation(*pair, trials=399).p_value <= 0.05 for pair in test_sets)
    assert as_often_as(0.8, found, len(test_sets))
