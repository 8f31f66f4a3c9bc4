"""Bootstrap resampling (Koehn, 2004): how far BLEU moves when the test set is drawn anew.

Resamples, interval and p-value are sacrebleu's, to the last digit. Beyond sacrebleu, the difference between
two systems has an interval, and so has a rate; several training seeds of a system are pooled: on each resample
its score is the mean of its runs' BLEU. Only the test set is drawn anew, never the seeds: the interval speaks of
other test sets for these very runs, and the spread over seeds has to be reported beside it (`seeds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sacrebleu.significance import _compute_p_value

from seq2seq_attn.evaluation.counts import BleuCounts


@dataclass(frozen=True)
class Interval:
    """Mean and central 95 % of BLEU over the resamples; sacrebleu prints `mean ± (high - low) / 2`."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedResult:
    """What the test set says about the difference between a system and its baseline, in BLEU points."""

    difference: float  # BLEU(system) - BLEU(baseline) on the test set as it is
    low: float  # central 95 % of the difference over the resamples
    high: float
    standard_error: float  # standard deviation of the difference over the resamples
    p_value: float  # sacrebleu's; see `paired_bootstrap`
    signature: str


def bleu_interval(system: BleuCounts, resamples: int = 1000, seed: int = 12345) -> Interval:
    """The interval of the mean BLEU of the runs; with one run, that of `sacrebleu --confidence`."""
    scores = _resampled_bleu(system, _draws(system.sentences, resamples, seed))
    return Interval(float(scores.mean()), *_central_95(scores))


def rate_interval(counts: NDArray[np.int64]) -> Interval:
    """The interval of a rate Σ part / Σ whole over the sentences, taken for each run and averaged, as of BLEU.

    `counts` is (runs, sentences, 2): part and whole. Resamples in which a run has nothing to count are left out.
    ValueError: a run has nothing to count at all.
    """
    if not counts[..., 1].sum(axis=1).all():
        raise ValueError("a run has nothing to count: every whole is 0")
    sums = _draws(counts.shape[1], resamples=1000, seed=12345) @ counts  # (runs, resamples, 2)
    sums = sums[:, sums[..., 1].all(axis=0)]
    rates = (sums[..., 0] / sums[..., 1]).mean(axis=0)
    return Interval(float(rates.mean()), *_central_95(rates))


def paired_bootstrap(
    system: BleuCounts, baseline: BleuCounts, resamples: int = 1000, seed: int = 12345
) -> PairedResult:
    """Both systems on the same resamples; with one run each, the p-value of `sacrebleu --paired-bs`.

    That p-value is how often |difference| exceeds its mean over the resamples by more than the one observed. For two
    systems that are far apart this is one tail, not two: where there is no difference, p < 0.05 comes in about one
    test set of ten. `randomisation` has a p-value that keeps its level; the interval here does so nearly, too.

    The two may have different numbers of runs. One deviation: systems that differ on no resample get p = 1,
    where sacrebleu's strict comparison gives them its smallest p.
    """
    difference = float(system.bleu().mean() - baseline.bleu().mean())
    draws = _draws(system.sentences, resamples, seed)
    differences = _resampled_bleu(system, draws) - _resampled_bleu(baseline, draws)
    pooled = {"runs": f"{system.runs}+{baseline.runs}"} if system.runs + baseline.runs > 2 else {}
    return PairedResult(
        difference,
        *_central_95(differences),
        standard_error=float(differences.std(ddof=1)),
        p_value=_p_value(difference, differences),
        signature=system.signature(seed=seed, bs=resamples, **pooled),
    )


@lru_cache(maxsize=1)  # many systems and rates are drawn from one test set, one after another
def _draws(sentences: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """(resamples, sentences): how often a sentence is in a resample; sacrebleu's random numbers."""
    picks = np.random.default_rng(seed).choice(sentences, size=(resamples, sentences), replace=True)
    cells = picks + sentences * np.arange(resamples)[:, None]
    times = np.bincount(cells.ravel(), minlength=resamples * sentences)
    drawn = times.reshape(resamples, sentences).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def _resampled_bleu(system: BleuCounts, draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """(resamples,): mean BLEU of the runs on each resample."""
    # The sums are whole numbers and exact; sacrebleu divides them in float32, so that is what it gets.
    sums = (draws @ system.counts).astype(np.float32)  # (runs, resamples, 10)
    scores: NDArray[np.float64] = np.mean([system.bleu_of(run) for run in sums], axis=0)
    return scores


def _central_95(samples: NDArray[np.float64]) -> tuple[float, float]:
    """The samples at the ranks where sacrebleu cuts: 1/40 of them lies below, 1/40 above."""
    ordered, tail = np.sort(samples), len(samples) // 40
    return float(ordered[tail]), float(ordered[-1 - tail])


def _p_value(difference: float, differences: NDArray[np.float64]) -> float:
    """How often |difference|, centred on its mean over the resamples, exceeds the one observed."""
    if not differences.any():
        return 1.0
    magnitudes = np.abs(differences)
    return float(_compute_p_value(magnitudes - magnitudes.mean(), abs(difference)))
