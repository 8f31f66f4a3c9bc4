"""Bootstrap and randomization equal those of sacrebleu, and have the levels and the power that they state."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from counted import bleu, bleu_counts, chrf_counts
from sacrebleu import BLEU, CHRF
from sacrebleu.significance import PairedTest
from scipy.stats import binom

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.counts import CorpusCounts
from seq2seq_attn.evaluation.resampling import BLOCK, approximate_randomization, paired_bootstrap, score_interval


def test_the_interval_of_a_single_run_equals_sacrebleus_command(references, spoil, sacrebleu_command):
    hypotheses = spoil(references, 0.3, seed=2)
    printed = sacrebleu_command(references, [hypotheses], "--confidence", "-w", "10")
    counts = bleu_counts([hypotheses], references)
    interval = score_interval(counts)
    assert counts.resampled_scores().mean() == pytest.approx(printed["confidence_mean"], abs=1e-9)
    assert (interval.high - interval.low) / 2 == pytest.approx(printed["confidence_var"], abs=1e-9)
    assert interval.low < printed["score"] < interval.high


RATES_OF_SYSTEMS = (0.25, 0.3, 0.36)  # bootstrap: p about 0.03, 0.17, 0.08; randomization: 0.02, 0.43, 0.06


@pytest.fixture(scope="module", params=["bs", "ar"])
def by_command(request, references, spoil, sacrebleu_command):
    """A paired test of three systems and a baseline by sacrebleu's command; then the same systems, counted."""
    systems = [spoil(references, rate, seed=2) for rate in RATES_OF_SYSTEMS]
    lines = [spoil(references, 0.3, seed=3), *systems]
    size = {"bs": "300", "ar": "800"}[request.param]
    options = f"--paired-{request.param}", f"--paired-{request.param}-n", size, "-tok", "intl", "-lc"
    rows = [row["BLEU"] for row in sacrebleu_command(references, lines, *options)]
    return rows, [bleu_counts([each], references, "intl", lowercase=True) for each in lines]


@pytest.mark.parametrize("by_command", ["bs"], indirect=True)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_paired_bootstrap_of_single_runs_equals_sacrebleus_command(by_command, number):
    (of_baseline, *_), (theirs, *_) = by_command
    of_system, ours = by_command[0][number], by_command[1][number]
    result = paired_bootstrap(ours, theirs, resamples=300)
    assert result.p_value == of_system["p_value"]
    assert result.difference == of_system["score"] - of_baseline["score"]
    interval = score_interval(ours, resamples=300)
    assert (interval.high - interval.low) / 2 == of_system["ci"]


def test_pooled_runs_score_the_mean_of_their_bleu_on_each_resample(references, spoil):
    """Against a direct computation: BLEU of the resampled lines themselves."""
    references = references[:37]
    system = [spoil(references, 0.3, seed) for seed in (2, 3)]
    baseline = [spoil(references, 0.35, seed) for seed in (4, 5, 6)]
    picks = np.random.default_rng(11).choice(37, size=(40, 37), replace=True)

    def mean_bleu(runs, rows):
        lines = [references[row] for row in rows]
        return np.mean([bleu([run[row] for row in rows], lines).value for run in runs])

    systems, baselines = ([mean_bleu(runs, rows) for rows in picks] for runs in (system, baseline))
    differences = np.subtract(systems, baselines)
    ours, theirs = (bleu_counts(runs, references) for runs in (system, baseline))
    result = paired_bootstrap(ours, theirs, resamples=40, seed=11)
    assert result.difference == pytest.approx(mean_bleu(system, range(37)) - mean_bleu(baseline, range(37)))
    # 40 // 40 = 1 resample is cut off at each end
    assert [result.low, result.high] == pytest.approx(np.sort(differences)[[1, -2]], abs=1e-4)
    centered = np.abs(differences) - np.abs(differences).mean()
    assert result.p_value == (1 + np.sum(centered > abs(result.difference))) / 41

    interval = score_interval(ours, resamples=40, seed=11)
    assert ours.resampled_scores(40, seed=11).mean() == pytest.approx(np.mean(systems), abs=1e-4)
    assert [*interval] == pytest.approx(np.sort(systems)[[1, -2]], abs=1e-4)


def test_identical_systems_have_difference_zero_and_p_value_one(references, spoil):
    system = bleu_counts([spoil(references, 0.3, seed=2)], references)
    result = paired_bootstrap(system, system)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_swapping_the_systems_negates_the_difference_and_keeps_the_p_value(test, references, spoil):
    pair = counted(references, spoil(references, 0.3, seed=2), spoil(references, 0.35, seed=3))
    one, other = test(*pair), test(*reversed(pair))
    assert (one.difference, one.p_value) == (-other.difference, other.p_value)
    assert 0.001 < one.p_value < 0.999
    if test is paired_bootstrap:
        assert (one.low, one.high) == (-other.high, -other.low)


def test_the_interval_covers_the_true_difference_in_about_95_percent_of_test_sets(references, spoil):
    """Test sets drawn from a population on which the true difference is known."""
    population = references * 20
    system, baseline = spoil(population, 0.3, seed=2), spoil(population, 0.34, seed=3)
    truth = bleu(system, population).value - bleu(baseline, population).value
    assert truth > 2
    draw, covered = random.Random(4), 0
    for _ in range(60):
        rows = draw.sample(range(len(population)), 60)
        ours, theirs, lines = ([column[row] for row in rows] for column in (system, baseline, population))
        result = paired_bootstrap(bleu_counts([ours], lines), bleu_counts([theirs], lines), resamples=200)
        covered += result.low <= truth <= result.high
    # 95 % of 60 is 57; with a right interval, 50 or fewer come once in 1,000 seeds, 60 once in 20
    assert 51 <= covered < 60


def counted(references, *systems):
    """Each system as one run."""
    return [bleu_counts([system], references) for system in systems]


@pytest.mark.parametrize("by_command", ["ar"], indirect=True)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_randomization_test_of_single_runs_equals_sacrebleus_command(by_command, number):
    (of_baseline, *_), (theirs, *_) = by_command
    of_system, ours = by_command[0][number], by_command[1][number]
    result = approximate_randomization(ours, theirs, trials=800)
    assert 800 % BLOCK, "the last block is a short one"
    assert result.p_value == of_system["p_value"]
    assert result.difference == of_system["score"] - of_baseline["score"]


@pytest.mark.parametrize(("test", "kind"), [(paired_bootstrap, "bs"), (approximate_randomization, "ar")])
def test_the_signature_is_sacrebleus_with_the_number_of_pooled_runs(test, kind, references, spoil):
    system = spoil(references, 0.3, seed=2)
    signatures, _ = PairedTest([("b", references), ("s", system)], {"BLEU": BLEU()}, [references], kind, 70)()
    assert test(*counted(references, system, references), 70).signature == str(signatures["BLEU"])
    runs = [bleu_counts([lines] * 3, references) for lines in (system, references)]
    assert "|runs:3+3|version:" in test(*runs, 70).signature


def test_pooled_runs_are_swapped_pairwise_with_one_coin_per_sentence(references, spoil):
    """Against a direct computation: BLEU of the swapped lines themselves."""
    references = references[:37]
    system = [spoil(references, 0.3, seed) for seed in (2, 3)]
    baseline = [spoil(references, 0.35, seed) for seed in (4, 5)]
    coins = np.random.default_rng(11).integers(2, size=(40, 37), dtype=bool)

    def difference(heads):
        exchanged = [
            [[pair[head], pair[not head]] for *pair, head in zip(ours, theirs, heads.astype(int), strict=True)]
            for ours, theirs in zip(system, baseline, strict=True)
        ]
        scores = [[bleu(list(side), references).value for side in zip(*run, strict=True)] for run in exchanged]
        return np.subtract(*np.mean(scores, axis=0))

    observed = difference(np.zeros(37))
    result = approximate_randomization(
        *(bleu_counts(runs, references) for runs in (system, baseline)), trials=40, seed=11
    )
    assert result.difference == pytest.approx(observed)
    assert result.p_value == (1 + sum(abs(difference(heads)) >= abs(observed) for heads in coins)) / 41


@pytest.mark.parametrize(("sentences", "p"), [(0, 1), (1, 1), (2, 1 / 2), (3, 1 / 4), (6, 1 / 32)])
def test_systems_that_differ_in_n_sentences_have_a_p_value_of_2_to_the_1_minus_n(references, spoil, sentences, p):
    """All in favor of one system: only swapping none or all of them gives as large a difference, 2 cases of 2^n."""
    spoilt = spoil(references, 0.6, seed=2)
    ours, theirs = counted(references, references, spoilt[:sentences] + references[sentences:])
    assert all(a != b for a, b in zip(spoilt[:6], references, strict=False))
    assert approximate_randomization(ours, theirs).p_value == pytest.approx(p, rel=0.15)


@pytest.mark.parametrize("runs", [7, 8, 9, 16])
def test_rounding_does_not_make_systems_different_that_differ_in_one_sentence(references, spoil, runs):
    """Every swap gives a difference of the same size, so that all trials tie with what was observed."""
    spoilt = [spoil(references, 0.3, seed) for seed in range(runs)]
    better = [[references[0], *run[1:]] for run in spoilt]
    ours, theirs = (bleu_counts(each, references) for each in (better, spoilt))
    for seed in range(5):
        assert approximate_randomization(ours, theirs, trials=200, seed=seed).p_value == 1


def test_systems_with_different_numbers_of_runs_are_refused(references):
    two, three = (bleu_counts([references] * runs, references) for runs in (2, 3))
    with pytest.raises(UserError, match="one system has 2 and the other 3; give both the same number"):
        approximate_randomization(two, three)


RATES = {"baseline": (0.3, 2), "as good": (0.3, 3), "better": (0.25, 4)}  # share of spoilt words, and seed


@pytest.fixture(scope="module", params=[40, pytest.param(1600, marks=pytest.mark.slow)])
def population(request, references, spoil):
    """Counts of the population of sentences for each system: copies of the references, corrupted independently."""
    lines = references * request.param
    return {name: bleu_counts([spoil(lines, *rate_and_seed)], lines) for name, rate_and_seed in RATES.items()}


def draw(population, name, sentences):
    """Disjoint test sets of a system and the baseline, as many as the population allows."""
    pair = population[name], population["baseline"]
    order = np.random.default_rng(7).permutation(pair[0].sources)
    return [
        [CorpusCounts(system.counts[:, order[start : start + sentences]], system.counting) for system in pair]
        for start in range(0, len(order) - sentences + 1, sentences)
    ]


def is_compatible(probability, found, of):
    """Whether the number found is in the central 99.9 % of the binomial distribution."""
    low, high = binom.ppf([0.0005, 0.9995], of, probability)
    return low <= found <= high


def test_without_a_true_difference_randomization_has_its_nominal_level(population):
    test_sets = draw(population, "as good", sentences=29)
    tests = [approximate_randomization(*pair, trials=199, seed=seed) for seed, pair in enumerate(test_sets)]
    for level in (0.05, 0.2, 0.5):
        assert is_compatible(level, sum(test.p_value <= level for test in tests), len(tests))


def test_without_a_true_difference_sacrebleus_bootstrap_exceeds_its_level(population):
    test_sets = draw(population, "as good", sentences=47)
    tests = [paired_bootstrap(*pair, resamples=200, seed=seed) for seed, pair in enumerate(test_sets)]
    found = sum(test.p_value < 0.05 for test in tests)
    assert binom.ppf(0.9995, len(tests), 0.05) < found < 0.25 * len(tests)


def test_chrf_is_resampled_as_sacrebleu_does():
    lines = [f"a small cat number {number} sat" for number in range(30)]
    spoilt = [line.replace("cat", "dog") if number % 3 else line for number, line in enumerate(lines)]
    counts = chrf_counts([spoilt], lines)
    ours = score_interval(counts, resamples=300)
    theirs = CHRF().corpus_score(spoilt, [lines], n_bootstrap=300)
    assert counts.resampled_scores(300).mean() == pytest.approx(theirs._mean, abs=1e-4)
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, abs=1e-4)


@pytest.mark.parametrize("counts", [bleu_counts, chrf_counts])
def test_a_second_reference_of_every_source_is_no_second_draw(references, spoil, counts):
    """Each pair written n times has the same score; with its source, it also has the same intervals and p-values."""
    systems = [spoil(references, rate, seed=2) for rate in (0.25, 0.3)]
    once = [counts([system], references) for system in systems]
    sources = [str(number) for number in range(len(references))]
    again = [counts([system * 3], references * 3, sources=sources * 3) for system in systems]
    for test in paired_bootstrap, partial(approximate_randomization, trials=500):
        found, expected = test(*again), test(*once)
        assert replace(found, signature=expected.signature) == expected
        assert f"|sources:{len(references)}|" in found.signature
    assert again[0].sources == len(references)
    rows = [*range(10, 50), *(len(references) + row for row in range(10, 50))]
    assert score_interval(again[0].select(rows)) == score_interval(once[0].select(range(10, 50)))
    apart = paired_bootstrap(*(counts([system * 3], references * 3) for system in systems))
    assert apart.high - apart.low < 0.7 * (paired_bootstrap(*once).high - paired_bootstrap(*once).low)


def test_sources_are_drawn_as_sacrebleu_draws_lines(references, spoil):
    """If some sources have several references, their summed counts are drawn, in the order of first appearance."""
    lines = spoil(references, 0.3, seed=2)
    draw = random.Random(6)
    sources = [str(draw.randrange(40)) for _ in lines]
    counts = bleu_counts([lines], references, sources=sources)
    summed = [counts.counts[0][[source == each for source in sources]].sum(0) for each in dict.fromkeys(sources)]
    assert score_interval(counts) == score_interval(CorpusCounts(np.array([summed]), counts.counting))
    assert bleu_counts([lines], references, sources=[*map(str, range(len(lines)))]).source_of is None
