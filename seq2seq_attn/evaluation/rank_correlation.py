"""Whether two measures of importance put the same words in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

Row = NDArray[np.float64]


class RankCorrelation(NamedTuple):
    """Kendall's τ-b over many pairs of rows: from 1, the same order, over 0, none in common, to -1, the reverse."""

    mean: float | None  # None where no row counts
    deviation: float | None  # standard deviation of the rows' τ
    rows: int  # that count: one in which all numbers are equal has no order


def rank_correlation(pairs: Iterable[tuple[Row, Row]]) -> RankCorrelation:
    """τ-b, which allows for ties (Kendall 1945), of each pair of rows of one length; their mean and deviation."""
    found = [float(kendalltau(one, other).statistic) for one, other in pairs if np.ptp(one) > 0 and np.ptp(other) > 0]
    if not found:
        return RankCorrelation(None, None, 0)
    return RankCorrelation(float(np.mean(found)), float(np.std(found)), len(found))
