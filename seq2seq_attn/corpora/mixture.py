"""Several training corpora: how many pairs of each an epoch has, and which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Mixture(NamedTuple):
    """The pairs of each corpus, as indices, and how many of them an epoch draws."""

    rows: Sequence[NDArray[np.int64]]
    counts: Sequence[int]

    @classmethod
    def of(cls, rows: Sequence[NDArray[np.int64]], weights: Sequence[float], temperature: float) -> Mixture:
        """As many pairs as there are, of corpus i in proportion to p_i = w_i n_i^(1/T) / Σ_k w_k n_k^(1/T).

        What rounding leaves goes to the corpora with the largest remainders.
        """
        sizes = np.array([len(each) for each in rows])
        shares = np.array(weights) * sizes ** (1 / temperature)
        wanted = sizes.sum() * shares / shares.sum()
        counts = np.floor(wanted).astype(np.int64)
        largest = np.argsort(counts - wanted, kind="stable")
        counts[largest[: sizes.sum() - counts.sum()]] += 1
        return cls(rows, counts.tolist())

    def draw(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """The pairs of an epoch: each pair of a corpus equally often, but for some, drawn at random, once more."""
        random = np.random.default_rng((seed, epoch))
        drawn = []
        for rows, count in zip(self.rows, self.counts, strict=True):
            whole, rest = divmod(count, len(rows))
            drawn += [rows] * whole + [np.sort(random.choice(rows, rest, replace=False))]
        return np.concatenate(drawn)
