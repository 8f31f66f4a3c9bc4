from __future__ import annotations

import random
import time

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.bootstrap import bleu_interval, paired_bootstrap
from seq2seq_attn.evaluation.metrics import bleu


def test_the_interval_of_one_run_is_that_of_sacrebleus_command(references, spoil, sacrebleu_command):
    hypotheses = spoil(references, 0.3, seed=2)
    printed = sacrebleu_command(references, [hypotheses], "--confidence", "-w", "10")
    interval = bleu_interval([hypotheses], references)
    assert interval.mean == pytest.approx(printed["confidence_mean"], abs=1e-9)
    assert (interval.high - interval.low) / 2 == pytest.approx(printed["confidence_var"], abs=1e-9)
    assert interval.low < printed["score"] < interval.high


@pytest.mark.parametrize("rate", [0.25, 0.3, 0.36])  # p about 0.03, 0.17 and 0.08
def test_the_paired_test_of_one_run_each_is_that_of_sacrebleus_command(references, spoil, sacrebleu_command, rate):
    system, baseline = spoil(references, rate, seed=2), spoil(references, 0.3, seed=3)
    options = "--paired-bs", "--paired-bs-n", "300", "-tok", "intl", "-lc"
    of_baseline, of_system = (row["BLEU"] for row in sacrebleu_command(references, [baseline, system], *options))
    result = paired_bootstrap([system], [baseline], references, "intl", lowercase=True, resamples=300)
    assert result.p_value == of_system["p_value"]
    assert result.difference == of_system["score"] - of_baseline["score"]
    interval = bleu_interval([system], references, "intl", lowercase=True, resamples=300)
    assert (interval.high - interval.low) / 2 == of_system["ci"]


def test_the_signature_is_sacrebleus_and_says_when_runs_were_pooled(references, spoil, sacrebleu_command):
    system = spoil(references, 0.3, seed=2)
    printed = sacrebleu_command(references, [system], "--confidence")
    assert paired_bootstrap([system], [references], references).signature == printed["signature"]
    pooled = paired_bootstrap([system] * 3, [references], references, resamples=70, seed=6)
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
    result = paired_bootstrap(system, baseline, references, resamples=80, seed=11)
    assert result.difference == pytest.approx(mean_bleu(system, range(37)) - mean_bleu(baseline, range(37)))
    # 80 // 40 = 2 resamples are cut off at each end
    assert [result.low, result.high] == pytest.approx(np.sort(differences)[[2, -3]], abs=1e-4)
    centred = np.abs(differences) - np.abs(differences).mean()
    assert result.p_value == (1 + np.sum(centred > abs(result.difference))) / 81

    interval = bleu_interval(system, references, resamples=80, seed=11)
    assert interval.mean == pytest.approx(np.mean(systems), abs=1e-4)
    assert [interval.low, interval.high] == pytest.approx(np.sort(systems)[[2, -3]], abs=1e-4)


def test_identical_systems_differ_by_nothing_and_not_significantly(references, spoil):
    system = spoil(references, 0.3, seed=2)
    result = paired_bootstrap([system], [system], references)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_swapping_the_systems_turns_the_difference_round_and_keeps_the_p_value(references, spoil):
    system, baseline = [spoil(references, 0.3, seed=2)], [spoil(references, 0.4, seed=3)]
    there, back = (paired_bootstrap(*pair, references) for pair in ((system, baseline), (baseline, system)))
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
        result = paired_bootstrap([ours], [theirs], lines, resamples=200)
        covered += result.low <= truth <= result.high
    # 95 % of 60 is 57; with a right interval, 50 or fewer come once in 1,000 seeds, 60 once in 20
    assert 51 <= covered < 60


def test_a_thousand_resamples_of_two_thousand_sentences_take_under_a_second(references, spoil):
    lines = (references * 23)[:2000]
    system, baseline = spoil(lines, 0.3, seed=2), spoil(lines, 0.34, seed=3)
    start = time.process_time()
    paired_bootstrap([system], [baseline], lines)
    assert time.process_time() - start < 1


def test_a_run_that_lacks_lines_or_a_system_without_runs_is_refused(references):
    with pytest.raises(UserError, match="89 hypotheses but 90 references"):
        paired_bootstrap([references], [references, references[:-1]], references)
    with pytest.raises(UserError, match="a system without runs"):
        paired_bootstrap([references], [], references)
    with pytest.raises(UserError, match="nothing to score"):
        bleu_interval([[]], [])
