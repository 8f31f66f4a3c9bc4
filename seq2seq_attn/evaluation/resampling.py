"""Tests over test sentences: bootstrap (Koehn, 2004) and approximate randomization (Riezler & Maxwell, 2005).

Several training seeds of a system are pooled: its score is the mean of the scores of its runs. Only test sentences are
resampled, never seeds: intervals and p-values are about other test sets for these same runs. Whether a difference holds
for other training runs as well is for the joint test to say (`significance`).

Sentences with the same source (several references of one sentence, each a pair) are drawn together, or swapped
together: their translations are the same, so that as independent draws they would seem to be more evidence than they
are. What is said of sentences below then holds for sources.

Bootstrap resamples, intervals and p-values are sacrebleu's, to the last digit of BLEU; sacrebleu rounds the chrF of a
resample to single precision, which differs in the sixth digit. In addition to sacrebleu, the difference between two
systems has an interval, and so has a rate.

Approximate randomization (Noreen, 1989): if two systems translate equally well, it does not matter which of them
produced which translation. In each trial a coin is tossed per sentence, and heads swaps the two translations. The
p-value is how often the difference between the two mixtures is at least the observed one:

    p = (1 + number of trials with |difference| >= |observed|) / (1 + trials)

Coins and scores are sacrebleu's (`sacrebleu --paired-ar`), and so is p to the last digit, unless a trial equals the
observed difference: it counts here, as in Noreen, while sacrebleu counts only greater ones. Otherwise two systems that
differ in a single sentence would be significantly different, as a trial can do no more than swap that sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.counts import CorpusCounts, draws


class Interval(NamedTuple):
    """The central 95 % of a score over the resamples; sacrebleu prints `mean ± (high - low) / 2`."""

    low: float
    high: float


@dataclass(frozen=True)
class PairedResult:
    """Difference between a system and its baseline over bootstrap resamples of the test set."""

    difference: float  # score(system) - score(baseline) on the original test set, in points of the metric
    low: float  # central 95 % of the difference over the resamples
    high: float
    p_value: float  # sacrebleu's; see `paired_bootstrap`
    signature: str


def score_interval(system: CorpusCounts, resamples: int = 1000, seed: int = 12345) -> Interval:
    """The interval of the mean score of the runs; with one run, that of `sacrebleu --confidence`."""
    return _central_95(system.resampled_scores(resamples, seed).mean(axis=0))


def rate_interval(counts: NDArray[np.int64]) -> Interval:
    """The interval of a rate Σ part / Σ whole over the sentences, computed per run and averaged over runs.

    `counts` is (runs, sentences, 2): part and whole. Resamples in which a whole is 0 are left out.
    ValueError: a whole is 0 over the entire test set.
    """
    if not counts[..., 1].sum(axis=1).all():
        raise ValueError("a run has nothing to count: every whole is 0")
    sums = draws(counts.shape[1]) @ counts  # (runs, resamples, 2)
    sums = sums[:, sums[..., 1].all(axis=0)]
    return _central_95((sums[..., 0] / sums[..., 1]).mean(axis=0))


def paired_bootstrap(
    system: CorpusCounts, baseline: CorpusCounts, resamples: int = 1000, seed: int = 12345
) -> PairedResult:
    """Both systems on the same resamples; with one run each, the p-value of `sacrebleu --paired-bs`.

    That p-value is how often |difference| exceeds its mean over the resamples by more than the observed one. For two
    systems that are far apart this is one tail, not two: without a true difference, p < 0.05 occurs on about one test
    set in ten. The p-value of `approximate_randomization` keeps its level; the interval here nearly does.

    The two may have different numbers of runs. One deviation: systems that differ on no resample get p = 1,
    while sacrebleu's strict comparison gives them its smallest p.
    """
    difference = float(system.scores().mean() - baseline.scores().mean())
    ours, theirs = (each.resampled_scores(resamples, seed).mean(axis=0) for each in (system, baseline))
    differences = ours - theirs
    pooled = {"runs": f"{system.runs}+{baseline.runs}"} if system.runs + baseline.runs > 2 else {}
    return PairedResult(
        difference,
        *_central_95(differences),
        p_value=_p_value(difference, differences),
        signature=system.signature(seed=seed, bs=resamples, **pooled),
    )


def _central_95(samples: NDArray[np.float64]) -> Interval:
    """The samples at sacrebleu's ranks: 1/40 of them lies below, 1/40 above."""
    ordered, tail = np.sort(samples), len(samples) // 40
    return Interval(float(ordered[tail]), float(ordered[-1 - tail]))


def _p_value(difference: float, differences: NDArray[np.float64]) -> float:
    """How often |difference|, centered on its mean over the resamples, exceeds the observed one.

    p = (1 + number of resamples that exceed it) / (1 + resamples), as in sacrebleu.
    """
    if not differences.any():
        return 1.0
    magnitudes = np.abs(differences)
    exceeding = int(np.sum(magnitudes - magnitudes.mean() > abs(difference)))
    return (1 + exceeding) / (1 + len(magnitudes))


BLOCK = 500  # trials summed at a time, to bound the memory


@dataclass(frozen=True)
class RandomizationResult:
    """Difference between a system and its baseline, with the p-value of approximate randomization."""

    difference: float  # score(system) - score(baseline), in points of the metric
    p_value: float  # two-sided; null hypothesis: the two are exchangeable, sentence by sentence
    signature: str


def approximate_randomization(
    system: CorpusCounts, baseline: CorpusCounts, trials: int = 10_000, seed: int = 12345
) -> RandomizationResult:
    """Test two systems on the same test set; with several runs each, the mean score is compared.

    Runs are swapped in the given order, the first with the first; all runs of a sentence share its coin, as sentences
    are sampled, not runs.
    UserError: the two have different numbers of runs.
    """
    if system.runs != baseline.runs:
        raise UserError(
            f"approximate randomization swaps runs pairwise, but one system has {system.runs} and the other "
            f"{baseline.runs}; give both the same number"
        )
    # Summed as the trials are: numpy adds eight runs or more in another order along an axis of its own.
    swapped = system.by_source(), baseline.by_source()
    ours, theirs = (_mean_scores(system, counts.sum(axis=1, keepdims=True)) for counts in swapped)
    observed = float(ours[0] - theirs[0])
    heads = np.random.default_rng(seed).integers(2, size=(trials, swapped[0].shape[1]), dtype=bool)
    mixed, rest = _swap(*swapped, heads)
    differences = _mean_scores(system, mixed) - _mean_scores(system, rest)
    as_large = int(np.sum(np.abs(differences) >= abs(observed)))
    pooled = {"runs": f"{system.runs}+{baseline.runs}"} if system.runs > 1 else {}
    return RandomizationResult(
        observed, (1 + as_large) / (1 + trials), system.signature(seed=seed, ar=trials, **pooled)
    )


def _swap(
    system: NDArray[np.int64], baseline: NDArray[np.int64], heads: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The summed counts of both mixtures, each (runs, trials, k); their sum is constant."""
    gain = (baseline - system).astype(np.float64)  # integers, so their sums are exact
    blocks = np.array_split(heads, -(-len(heads) // BLOCK))
    gained = np.concatenate([block @ gain for block in blocks], axis=1).astype(np.int64)
    mixed = system.sum(axis=1, keepdims=True) + gained
    return mixed, (system + baseline).sum(axis=1, keepdims=True) - mixed


def _mean_scores(system: CorpusCounts, sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """(trials,): over the runs."""
    return sum((system.counting.score(run) for run in sums), np.zeros(sums.shape[1])) / len(sums)
