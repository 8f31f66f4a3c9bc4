"""Is a difference between two arms due to the arms, or to the test sentences and training seeds that were drawn?

The score of a training run depends on two random draws: the training (initial weights, order of batches, dropout) and
the sentences of the test set. A conclusion about arms has to hold for other training runs and for other sentences. The
joint test treats both as random, seeds nested in arms, sentences shared by all runs: the analysis of Obuchowski &
Rockette (1995, Communications in Statistics - Simulation 24(2)), made for readers and patients, with the degrees of
freedom of Hillis (2007, Statistics in Medicine 26(3)). Its false-positive rate and its power, found by simulation, are
in `experiments/inference`.

With n runs per arm, D the difference of the mean scores, s^2 the variance of the scores over the runs of an arm, and
C the mean covariance of two different runs over resampled test sets, within an arm and across both:

    V = s_a^2 / n_a + s_b^2 / n_b + max(0, C_a + C_b - 2 C_ab),    T = D / √V
    df = (n - 1) V^2 / (s_a^4 / n_a^2 + s_b^4 / n_b^2),    n = min(n_a, n_b)

The first two terms are the noise of training runs, the third is the noise of sentences that more runs do not reduce.
With equally many runs in both arms, this is Hillis's df. With different numbers, his would divide each term by its own
n - 1; but if the arm with few runs happens to vary little, T and df both come out too large, and with 5 runs against 2,
7 to 10 % of verdicts would be false. So both terms have the degrees of freedom of the arm with fewer runs.

If run k of both arms began with the same weights and saw the same batches, the runs are paired: with d_k = a_k - b_k,

    V = s_d^2 / n + max(0, C_d),    df = n - 1

(Estimating df as above from so few differences would make up to one verdict in nine false.)

Runs that all score the same on every resample are copies of one training, and say nothing about others: there is no
test then. At 0 and at 100, where scores end, different trainings do meet. So they do by chance where a score is coarse,
as the share of 450 words that are right: s^2 would be 0, and is, of what it estimates, the part that resamples show,
the mean variance of a run over them minus C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm, t

from seq2seq_attn import __version__
from seq2seq_attn.evaluation.counts import CorpusCounts

LEVEL, POWER = 0.05, 0.80
CENTRAL_95 = 0.975  # upper quantile of the central 95 %
ROUNDING = 1e-9  # smaller differences of scores, and smaller standard errors, are rounding


class RunScores(NamedTuple):
    """The runs of an arm, one per seed, scored on one test set."""

    scores: NDArray[np.float64]  # (runs,): on the test set as it is
    resampled: NDArray[np.float64]  # (runs, resamples): on resamples, which are the same for all arms

    @classmethod
    def of(cls, counts: CorpusCounts) -> RunScores:
        return cls(counts.scores(), counts.resampled_scores())

    @property
    def differ(self) -> bool:
        """Whether not all runs score the same, or not on every resample."""
        return self.score_apart or bool(np.ptp(self.resampled, axis=0).max() > ROUNDING)

    @property
    def score_apart(self) -> bool:
        """Whether not all runs score the same on the test set as it is."""
        return bool(np.ptp(self.scores) > ROUNDING)

    @property
    def are_copies(self) -> bool:
        """Whether all runs score the same on every resample, and neither 0 nor 100."""
        return not self.differ and ROUNDING < self.scores[0] < 100 - ROUNDING


class TrainingNoise(NamedTuple):
    """A term of V: the squared standard error of a mean over runs, and its degrees of freedom."""

    squared_error: float
    degrees_of_freedom: int


@dataclass(frozen=True)
class JointResult:
    """The difference between the mean scores of two arms, tested over training runs and sentences together."""

    difference: float
    low: float  # 95 % interval
    high: float
    p_value: float  # two-sided; null hypothesis: the arms are equally good over all training runs and sentences
    degrees_of_freedom: float
    paired: bool
    training_noise: tuple[TrainingNoise, ...]  # one per arm; a single one if the runs are paired
    sentences: float  # the third term of V

    @property
    def variance(self) -> float:
        """V, the squared standard error of the difference."""
        return sum(each.squared_error for each in self.training_noise) + self.sentences


def joint_test(system: RunScores, baseline: RunScores, paired: bool = False) -> JointResult | None:
    """The joint test of two arms; see the module's docstring.

    None if it is undefined: an arm has a single run, or copies of one, or neither training runs nor sentences vary.
    ValueError: `paired` with different numbers of runs.
    """
    counts = len(system.scores), len(baseline.scores)
    if paired and counts[0] != counts[1]:
        raise ValueError(f"paired runs need the same number in both arms, got {counts[0]} and {counts[1]}")
    if min(counts) < 2 or system.are_copies or baseline.are_copies:
        return None
    if paired:
        difference = RunScores(system.scores - baseline.scores, system.resampled - baseline.resampled)
        training_noise: tuple[TrainingNoise, ...] = (_training_noise(difference),)
        sentences = _covariance_within(difference)
    else:
        training_noise = _training_noise(system), _training_noise(baseline)
        across = np.cov(system.resampled.mean(axis=0), baseline.resampled.mean(axis=0))[0, 1]
        sentences = _covariance_within(system) + _covariance_within(baseline) - 2 * float(across)
    sentences = max(0.0, sentences)
    variance = sum(each.squared_error for each in training_noise) + sentences
    if variance < ROUNDING**2:
        return None
    noise = np.array([each.squared_error for each in training_noise])
    freedom = float(_freedom(noise, np.array([each.degrees_of_freedom for each in training_noise]), sentences))
    error, gap = variance**0.5, float(system.scores.mean() - baseline.scores.mean())
    half = float(t.ppf(CENTRAL_95, freedom)) * error
    p_value = float(2 * t.sf(abs(gap) / error, freedom))
    return JointResult(gap, gap - half, gap + half, p_value, freedom, paired, training_noise, sentences)


def joint_signature(counts: CorpusCounts) -> str:
    """The settings of the joint test in this metric, in sacrebleu's form."""
    sources = "" if counts.source_of is None else f"|sources:{counts.sources}"
    return f"test:obuchowski-rockette|df:hillis|bs:1000|seed:12345{sources}|version:seq2seq_attn-{__version__}"


def _freedom(noise: NDArray[np.float64], freedoms: NDArray[np.int64], sentences: float) -> NDArray[np.float64]:
    """df, along the last axis of `noise`: both arms, or the differences of pairs alone."""
    if len(freedoms) == 1:
        return np.broadcast_to(freedoms[0], noise.shape[:-1])
    variance, of_runs = noise.sum(axis=-1) + sentences, (noise**2).sum(axis=-1) / freedoms.min()
    with np.errstate(divide="ignore"):
        return np.asarray(variance**2 / of_runs)  # infinite if the runs of each arm all score the same


def _training_noise(runs: RunScores) -> TrainingNoise:
    count = len(runs.scores)
    if runs.score_apart:
        variance = float(np.var(runs.scores, ddof=1))
    else:
        variance = max(0.0, float(np.var(runs.resampled, axis=1, ddof=1).mean()) - _covariance_within(runs))
    return TrainingNoise(variance / count, count - 1)


def _covariance_within(runs: RunScores) -> float:
    """The mean covariance over the resamples of two different runs."""
    count = len(runs.scores)
    covariance = np.cov(runs.resampled)
    return float((covariance.sum() - np.trace(covariance)) / (count * (count - 1)))


def joint_interval(runs: RunScores) -> tuple[float, float] | None:
    """The 95 % interval of the mean score of an arm over training runs and sentences; None for a single run.

    As in the joint test, for one arm: V = s^2 / n + max(0, C), with df = V^2 / (s^4 / n^2 / (n - 1)).
    """
    if len(runs.scores) < 2:
        return None
    noise, sentences = _training_noise(runs), max(0.0, _covariance_within(runs))
    variance = noise.squared_error + sentences
    squared = noise.squared_error**2 / noise.degrees_of_freedom
    freedom = variance**2 / squared if squared else np.inf
    half = float(t.ppf(CENTRAL_95, freedom)) * variance**0.5
    return float(runs.scores.mean()) - half, float(runs.scores.mean()) + half


def t_interval(scores: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean over seeds: m ± t_{0.975, n-1} s / √n; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    half = float(t.ppf(CENTRAL_95, len(scores) - 1)) * float(np.std(scores, ddof=1)) / len(scores) ** 0.5
    return float(np.mean(scores)) - half, float(np.mean(scores)) + half


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of Holm (1979), in the order given.

    With p_(1) <= ... <= p_(m) the i-th becomes max_{k <= i} min(1, (m - k + 1) p_(k)). If all null hypotheses are
    true, the smallest falls below 0.05 in at most 5 % of tables, whatever the dependence between the tests. So the
    error rate of 5 % holds for the whole table, and not for each of its rows.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


FEWEST_RUNS = 3  # per arm: two estimate a variance too badly to predict what a test would detect
DRAWS = 20_000


def detectable_difference(result: JointResult, comparisons: int = 1) -> float | None:
    """The true difference that the joint test detects with 80 % power in an experiment like this one.

    Found by simulating the test: the true variances are taken to be those estimated here, and each of `DRAWS`
    simulated experiments re-estimates them from the same number of runs. `comparisons` is the number of tests that
    Holm's correction covers; the test of the first step, at 5 % / comparisons, has to detect the difference. None with
    fewer than `FEWEST_RUNS` runs in an arm.
    """
    freedoms = np.array([each.degrees_of_freedom for each in result.training_noise])
    if freedoms.min() < FEWEST_RUNS - 1:
        return None
    true = np.array([each.squared_error for each in result.training_noise])
    generator = np.random.default_rng(12345)
    quantiles = generator.random((DRAWS, len(true)))
    estimated = true * chi2.ppf(quantiles, freedoms) / freedoms
    noise = norm.ppf(generator.random(DRAWS)) * result.variance**0.5
    variance = estimated.sum(axis=1) + result.sentences
    threshold = t.ppf(1 - LEVEL / comparisons / 2, _freedom(estimated, freedoms, result.sentences)) * variance**0.5
    return float(np.quantile(threshold - noise, POWER))
