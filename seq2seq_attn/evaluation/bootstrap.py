"""Bootstrap resampling (Koehn, 2004): how far BLEU moves when the test set is drawn anew.

Resamples, interval and p-value are sacrebleu's, to the last digit. Beyond sacrebleu, the difference between
two systems has an interval, and several training seeds of a system are pooled: on each resample its score is
the mean of its runs' BLEU. Only the test set is drawn anew, never the seeds: the interval speaks of other
test sets for these very runs, and the spread over seeds has to be reported beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu import BLEU
from sacrebleu.significance import _compute_p_value

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import bleu_metric, require_pairs

Runs = Sequence[Sequence[str]]  # one list of hypotheses a training seed; a single system is [hypotheses]


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
    p_value: float  # two-sided; null hypothesis: no difference
    signature: str


def bleu_interval(
    runs: Runs,
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    resamples: int = 1000,
    seed: int = 12345,
) -> Interval:
    """The interval of the mean BLEU of `runs`; with one run, that of `sacrebleu --confidence`.

    UserError: no run, or the errors of `metrics.bleu` in one of them.
    """
    metric = bleu_metric(tokenize, lowercase)
    statistics = _statistics(runs, references, metric)
    scores = _resampled_bleu(statistics, _draws(len(references), resamples, seed), metric)
    return Interval(float(scores.mean()), *_central_95(scores))


def paired_bootstrap(
    system: Runs,
    baseline: Runs,
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    resamples: int = 1000,
    seed: int = 12345,
) -> PairedResult:
    """Both systems on the same resamples; with one run each, the p-value of `sacrebleu --paired-bs`.

    The two may have different numbers of runs. One deviation: systems that differ on no resample get p = 1,
    where sacrebleu's strict comparison gives them its smallest p. Errors as in `bleu_interval`.
    """
    metric = bleu_metric(tokenize, lowercase)
    ours, theirs = (_statistics(runs, references, metric) for runs in (system, baseline))
    difference = _observed_bleu(ours, metric) - _observed_bleu(theirs, metric)
    draws = _draws(len(references), resamples, seed)
    differences = _resampled_bleu(ours, draws, metric) - _resampled_bleu(theirs, draws, metric)

    signature = metric.get_signature()
    signature.update("seed", seed)
    signature.update("bs", resamples)
    if len(system) > 1 or len(baseline) > 1:
        signature.update("runs", f"{len(system)}+{len(baseline)}")
    low, high = _central_95(differences)
    return PairedResult(difference, low, high, _p_value(difference, differences), str(signature))


def _statistics(runs: Runs, references: Sequence[str], metric: BLEU) -> NDArray[np.int64]:
    """(runs, sentences, 10): sacrebleu's counts of words and n-grams, whose sums make BLEU."""
    if not runs:
        raise UserError("nothing to score: a system without runs; give the hypotheses of at least one")
    for hypotheses in runs:
        require_pairs(hypotheses, references)
    counts = [metric._extract_corpus_statistics(hypotheses, [references]) for hypotheses in runs]
    return np.array(counts, dtype=np.int64)


def _draws(sentences: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """(resamples, sentences): how often a sentence is in a resample; sacrebleu's random numbers."""
    picks = np.random.default_rng(seed).choice(sentences, size=(resamples, sentences), replace=True)
    cells = picks + sentences * np.arange(resamples)[:, None]
    times = np.bincount(cells.ravel(), minlength=resamples * sentences)
    return times.reshape(resamples, sentences).astype(np.float64)


def _observed_bleu(statistics: NDArray[np.int64], metric: BLEU) -> float:
    """Mean BLEU of the runs on the test set as it is."""
    return float(_bleu(statistics.sum(axis=1).tolist(), metric).mean())


def _resampled_bleu(statistics: NDArray[np.int64], draws: NDArray[np.float64], metric: BLEU) -> NDArray[np.float64]:
    """(resamples,): mean BLEU of the runs on each resample."""
    # The sums are whole numbers and exact; sacrebleu divides them in float32, so that is what it gets.
    sums = (draws @ statistics).astype(np.float32)  # (runs, resamples, 10)
    scores: NDArray[np.float64] = np.mean([_bleu(run, metric) for run in sums], axis=0)
    return scores


def _bleu(sums: Iterable[Any], metric: BLEU) -> NDArray[np.float64]:
    """One score a row; a row is a list of int or, as sacrebleu resamples, an array of float32."""
    return np.array([metric._compute_score_from_stats(row).score for row in sums], dtype=np.float64)


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
