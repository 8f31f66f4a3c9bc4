"""Which pairs of the training corpora an epoch uses, in windows of about a million, whose batches are made together.

No array is as long as the corpora, so the memory that batches need does not depend on their size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

WINDOW = 1 << 20  # pairs of a window at most
_CHUNK = 1 << 10  # neighbors that are in one window together at most, so that a window is read in whole pages

Lines = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """The pairs of one corpus, or of several that follow each other, dealt at random to windows of equal size.

    Every window has its share of each corpus, in chunks of neighbors. It has the same pairs in every epoch, and so as
    many batches. An epoch has the windows in another order, and of each as many pairs as it has: those of corpus i in
    proportion to p_i = w_i n_i^(1/T) / Σ_k w_k n_k^(1/T), for n_i pairs of it that are used. With equal weights and
    T = 1, it has each of them once.

    Args:
        sizes: Pairs of each corpus.
        weights: w_i of each corpus; equal by default.
        temperature: T.
        seed: Determines, with the number of the epoch, what is drawn.
        used: Of some lines, in their order, those that are used; all by default.
        window: Pairs of a window at most.
    """

    sizes: Sequence[int]
    weights: Sequence[float] | None = None
    temperature: float = 1.0
    seed: int = 0
    used: Callable[[Lines], Lines] = field(default=lambda lines: lines)
    window: int = WINDOW

    def __len__(self) -> int:
        """The number of windows."""
        return max(1, -(-sum(self.sizes) // self.window))

    def order(self, epoch: int) -> list[int]:
        """The windows in the order of an epoch."""
        # No window has the number that is their count, so nothing else is drawn from the same seed.
        return list(map(int, np.random.default_rng((self.seed, epoch, len(self))).permutation(len(self))))

    @cached_property
    def _deal(self) -> list[tuple[int, Lines]]:
        """Of each corpus, the size of its chunks, and its chunks in the order in which windows take them in turn."""
        sizes = [min(_CHUNK, max(1, size // (16 * len(self)))) for size in self.sizes]
        counts = [-(-pairs // size) for pairs, size in zip(self.sizes, sizes, strict=True)]
        return [
            (size, np.random.default_rng((self.seed, corpus)).permutation(count))
            for corpus, (size, count) in enumerate(zip(sizes, counts, strict=True))
        ]

    def _lines_by_corpus(self, window: int) -> list[Lines]:
        found, start = [], 0
        for pairs, (size, chunks) in zip(self.sizes, self._deal, strict=True):
            own = np.sort(chunks[window :: len(self)])
            lines = (own[:, None] * size + np.arange(size)).reshape(-1)
            found.append(start + lines[lines < pairs])
            start += pairs
        return found

    def lines(self, window: int) -> Lines:
        """The lines of a window, in their order, those that are not used included."""
        return np.concatenate(self._lines_by_corpus(window))

    def _counts(self, rows: Sequence[Lines]) -> list[int]:
        """How many pairs of each corpus an epoch draws from a window; the largest remainders are rounded up."""
        sizes = np.array([len(each) for each in rows])
        shares = np.array(self.weights or [1.0] * len(rows)) * sizes ** (1 / self.temperature)
        wanted = sizes.sum() * shares / max(shares.sum(), 1e-300)
        counts: NDArray[np.int64] = np.floor(wanted).astype(np.int64)
        largest = np.argsort(counts - wanted, kind="stable")
        counts[largest[: sizes.sum() - counts.sum()]] += 1
        return list(map(int, counts))

    def counts(self) -> list[int]:
        """How many pairs of each corpus an epoch draws."""
        by_window = (self._counts(list(map(self.used, self._lines_by_corpus(each)))) for each in range(len(self)))
        return [sum(each) for each in zip(*by_window, strict=True)]

    def draw(self, epoch: int, window: int) -> Lines:
        """The pairs of a window in an epoch: each of a corpus equally often, but for some, at random, once more."""
        random = np.random.default_rng((self.seed, epoch, window))
        own = list(map(self.used, self._lines_by_corpus(window)))
        drawn = []
        for rows, count in zip(own, self._counts(own), strict=True):
            if len(rows):
                whole, rest = divmod(count, len(rows))
                drawn += [rows] * whole + [np.sort(random.choice(rows, rest, replace=False))]
        return np.concatenate([np.empty(0, np.int64), *drawn])
