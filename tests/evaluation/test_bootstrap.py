from __future__ import annotations

import random

import numpy as np
import pytest

from seq2seq_attn.evaluation.bootstrap import bleu_interval, paired_bootstrap
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.metrics import bleu


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


def test_swapping_the_systems_turns_the_difference_round_and_keeps_the_p_value(references, spoil):
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
