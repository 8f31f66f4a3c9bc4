"""Statistics over training seeds, the correction for several comparisons, and the power of an experiment.

Scores of several training runs, one per seed, estimate those of other seeds; the test set stays the same. They are
treated as independent draws from a normal distribution, one distribution per arm. Two arms are compared by Welch's t
test, unpaired although their seeds have the same numbers: the models have different weights to initialise, so that the
same seed gives them no common start; and pairing would halve the degrees of freedom, of which a few seeds have none to
spare. (What seeds do share, such as the order of the batches, makes the unpaired test conservative.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

CENTRAL_95 = 0.975  # upper quantile of the central 95 %


@dataclass(frozen=True)
class SeedsResult:
    """The difference between the mean scores of two arms, over seeds."""

    difference: float
    low: float  # 95 % t interval
    high: float
    p_value: float  # two-sided; null hypothesis: the same mean
    standard_error: float
    degrees_of_freedom: float


def t_interval(scores: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean: m ± t_{0.975, n-1} s / √n; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    mean, squared_error = _mean(scores)
    half = float(t.ppf(CENTRAL_95, len(scores) - 1)) * squared_error**0.5
    return mean - half, mean + half


def welch(system: Sequence[float], baseline: Sequence[float]) -> SeedsResult | None:
    """Welch's t test (1947) of the scores of two arms, one per seed, with Welch's degrees of freedom.

        t = (m_1 - m_2) / e,  e^2 = e_1^2 + e_2^2,  e_i^2 = s_i^2 / n_i,  df = e^4 / Σ_i e_i^4 / (n_i - 1)

    None if it is undefined: an arm has a single score, or all scores within each arm are equal.
    """
    if min(len(system), len(baseline)) < 2:
        return None
    (ours, our_error), (theirs, their_error) = _mean(system), _mean(baseline)
    squared_error = our_error + their_error
    if squared_error == 0:
        return None
    freedom = squared_error**2 / (our_error**2 / (len(system) - 1) + their_error**2 / (len(baseline) - 1))
    error, difference = squared_error**0.5, ours - theirs
    half = float(t.ppf(CENTRAL_95, freedom)) * error
    return SeedsResult(
        difference,
        low=difference - half,
        high=difference + half,
        p_value=float(2 * t.sf(abs(difference) / error, freedom)),
        standard_error=error,
        degrees_of_freedom=freedom,
    )


def _mean(scores: Sequence[float]) -> tuple[float, float]:
    """The mean, and the square of its standard error."""
    return float(np.mean(scores)), float(np.var(scores, ddof=1)) / len(scores)


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


LEVEL, POWER = 0.05, 0.80


def detectable_difference(standard_error: float, degrees_of_freedom: float = math.inf) -> float:
    """The true difference that a two-sided test at 5 % detects with 80 % power in an experiment like this one.

    The minimum detectable effect of Bloom (1995, Evaluation Review 19(5)):

        (t_{0.975} + t_{0.80}) · standard error,  at the degrees of freedom of the error; 2.80 standard errors at ∞

    The standard error is itself an estimate: a good one from resamples of a few hundred sentences or more, a rough one
    from two or three seeds. The level is that of a single comparison, uncorrected.
    """
    quantiles = t.ppf([1 - LEVEL / 2, POWER], degrees_of_freedom)
    return float(quantiles.sum()) * standard_error
