"""Two arms compared over several test sets, as of several languages, each with training runs of its own.

The differences D_l on L test sets are then independent, and their mean has

    D = sum_l D_l / L,    V = sum_l V_l / L^2,    df = (sum_l V_l)^2 / sum_l (V_l^2 / df_l)

with V_l and df_l those of the joint test on each (see `seq2seq_attn.evaluation.significance`); df is that of
Satterthwaite (1946, Biometrics Bulletin 2(6)). The mean is one over these test sets; of others it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from seq2seq_attn.evaluation.significance import CENTRAL_95
from seq2seq_attn.results.differences import Difference
from seq2seq_attn.results.results import Results


class MeanDifference(NamedTuple):
    """The mean over test sets of an arm's score minus that of another."""

    difference: float
    low: float  # 95 % interval, over training runs and sentences where there are several runs
    high: float
    p_value: float | None  # two-sided; None if an arm has a single training run


def mean_difference(comparisons: Sequence[Results], arm: str, other: str, metric: str) -> MeanDifference:
    """The mean of the differences between two arms that each of these comparisons has.

    Args:
        comparisons: One per test set, with training runs of its own.
        arm: The arm whose score is taken first, whichever of the two is the baseline of the comparison.
        other: The arm that it is compared with.
        metric: The key of a metric of all comparisons.

    Raises:
        KeyError: a comparison does not compare these arms, or not in this metric.
    """
    each = [difference_between(results, arm, other, metric) for results in comparisons]
    differences = np.array([one.difference for one in each])
    ends = np.array([one.interval for one in each])
    freedoms = np.array([inf if one.joint is None else one.joint.degrees_of_freedom for one in each])
    # Standard errors below and above: the interval over resampled test sets, that of single runs, may be skewed.
    errors = np.abs(ends - differences[:, None]) / t.ppf(CENTRAL_95, freedoms)[:, None]
    variances = errors.mean(axis=1) ** 2
    of_runs = float((variances**2 / freedoms).sum())
    freedom = float(variances.sum()) ** 2 / of_runs if of_runs else inf
    below, above = np.hypot.reduce(errors) * t.ppf(CENTRAL_95, freedom) / len(each)
    mean, error = float(differences.mean()), float(variances.sum()) ** 0.5 / len(each)
    tested = error > 0 and all(one.joint for one in each)
    p_value = float(2 * t.sf(abs(mean) / error, freedom)) if tested else None
    return MeanDifference(mean, mean - float(below), mean + float(above), p_value)


def difference_between(results: Results, arm: str, other: str, metric: str) -> Difference:
    """The difference on one test set; arguments and errors of `mean_difference`."""
    pair = next((each for each in results.tested if {each.arm, each.baseline} == {arm, other}), None)
    if pair is None:
        raise KeyError(f"{results.experiment} does not compare {arm!r} with {other!r}")
    if metric == results.main.key:
        found = Difference(pair.difference, pair.low, pair.high, pair.joint)
    else:
        found = pair.others[metric]
    if pair.arm == arm:
        return found
    joint = found.joint and replace(found.joint, low=-found.joint.high, high=-found.joint.low)
    return Difference(-found.difference, -found.high, -found.low, joint)
