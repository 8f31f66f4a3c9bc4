from __future__ import annotations

import numpy as np
import pytest
from counted import bleu, bleu_counts, chrf, chrf_counts
from sacrebleu import BLEU

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.counts import bleu_of_counts


def test_summed_counts_give_the_bleu_of_each_run(references, spoil):
    runs = [spoil(references, 0.3, seed) for seed in (2, 3, 4)]
    counts = bleu_counts(runs, references, "char", lowercase=True)
    assert counts.scores().tolist() == [bleu(run, references, "char", lowercase=True).value for run in runs]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_bleu_of_counts_is_sacrebleus_to_the_last_digit(dtype):
    """Also of rows without matches, without n-grams of some orders, and shorter than the reference."""
    draw = np.random.default_rng(5)
    ours = np.maximum(draw.integers(0, 40, (300, 1)) - np.arange(4) * draw.integers(0, 9, (300, 1)), 0)
    matches = np.minimum(draw.integers(-9, 40, (300, 4)).clip(0), ours)
    rows = np.concatenate([ours[:, :1], draw.integers(0, 40, (300, 1)), matches, ours], axis=1).astype(dtype)
    stats = rows.tolist() if dtype == np.int64 else rows
    expected = [BLEU()._compute_score_from_stats(row).score for row in stats]
    assert bleu_of_counts(rows).tolist() == expected
    assert 30 < sum(score == 0 for score in expected) < 150


def test_a_run_with_missing_lines_or_a_system_without_runs_is_refused(references):
    with pytest.raises(UserError, match="89 hypotheses but 90 references"):
        bleu_counts([references, references[:-1]], references)
    with pytest.raises(UserError, match="a system without runs"):
        bleu_counts([], references)
    with pytest.raises(UserError, match="nothing to score"):
        bleu_counts([[]], [])


def test_chrf_of_summed_counts_is_sacrebleus_even_without_long_n_grams(references, spoil):
    runs = [spoil(references, 0.3, seed=2), ["" for _ in references], ["x y" for _ in references]]
    counts = chrf_counts(runs, references)
    assert counts.scores() == pytest.approx([chrf(run, references).value for run in runs], abs=1e-12)
    short = ["ab", "b", "a"]  # no n-gram of the higher orders
    counts = chrf_counts([["ab", "c", "a"]], short)
    assert counts.scores() == pytest.approx([chrf(["ab", "c", "a"], short).value], abs=1e-12)
    assert counts.counting.score(np.zeros((1, 18))) == [0]
