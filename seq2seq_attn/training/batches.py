"""Training batches: pairs are encoded once, bucketed by length in every epoch, and padded into tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from seq2seq_attn.corpora.encoded import EncodedSentences, length_buckets
from seq2seq_attn.corpora.source import Source, Tokens, padded_batch
from seq2seq_attn.training.guided_alignment import CorpusLinks, TokenLinks


class Batch(NamedTuple):
    """Sentence pairs of similar length."""

    source: Source
    target: Tokens
    links: TokenLinks | None = None  # for guided alignment
    rows: NDArray[np.int64] | None = None  # the indices of the pairs in their corpus, if they have any

    def to(self, device: torch.device) -> Batch:
        """The batch on the device; lengths stay on the CPU, where packing needs them."""
        links = None if self.links is None else self.links.to(device)
        return self._replace(source=self.source.to(device), target=self.target.to(device), links=links)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches with one half of the pairs each, without the padding that they do not need."""
        middle = len(self.source.lengths) // 2

        def part(start: int, end: int) -> Batch:
            own = torch.arange(start, end)
            links = None if self.links is None else self.links.of_pairs(start, end)
            rows = None if self.rows is None else self.rows[start:end]
            return Batch(self.source.select(own), self.target.select(own), links, rows)

        return part(0, middle), part(middle, len(self.source.lengths))

    def twice(self) -> Batch:
        """The batch with a copy of all its pairs after them."""
        pairs = len(self.source.lengths)
        both = torch.arange(pairs).repeat(2)
        links = None if self.links is None else self.links.twice(pairs)
        return Batch(self.source.select(both), self.target.select(both), links)


class EncodedPairs(Dataset[Batch]):
    """The pairs of an encoded corpus, or its rows `kept`; indexing with a list gives a batch, with its `links`."""

    def __init__(
        self,
        source: EncodedSentences,
        target: EncodedSentences,
        kept: NDArray[np.int64] | None = None,
        links: CorpusLinks | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.kept = np.arange(len(source)) if kept is None else kept
        self.links = links

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, indices: list[int]) -> Batch:
        rows = self.kept[indices]
        links = None if self.links is None else self.links.of(rows)
        return Batch(padded_batch(self.source, rows), padded_batch(self.target, rows), links, rows)

    def set_epoch(self, epoch: int) -> None:
        """Called before the batches of an epoch other than the first are drawn."""

    @property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths of each pair, `</s>` included."""
        return self.source.lengths[self.kept], self.target.lengths[self.kept]


class SampledPairs(EncodedPairs):
    """Pairs with a new segmentation in every epoch: `sample(epoch)` encodes the whole corpus, source and target."""

    def __init__(
        self, sample: Callable[[int], tuple[EncodedSentences, EncodedSentences]], kept: NDArray[np.int64] | None = None
    ) -> None:
        super().__init__(*sample(0), kept)
        self.sample = sample

    def set_epoch(self, epoch: int) -> None:
        self.source, self.target = self.sample(epoch)


class LengthBuckets(Sampler[list[int]]):
    """The batches of `length_buckets` for (seed, epoch), which a resumed run repeats.

    A run that is resumed within an epoch sets `first`, the number of batches to leave out once.
    """

    def __init__(self, pairs: EncodedPairs, size: int, unit: str, seed: int) -> None:
        self.pairs = pairs
        self.size, self.unit, self.seed = size, unit, seed
        self.epoch = self.first = 0
        self.batches = self._draw()

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.pairs.set_epoch(epoch)
            self.batches = self._draw()

    def _draw(self) -> list[list[int]]:
        return length_buckets(*self.pairs.lengths, size=self.size, unit=self.unit, seed=self.seed, epoch=self.epoch)

    def __iter__(self) -> Iterator[list[int]]:
        first, self.first = self.first, 0
        yield from self.batches[first:]

    def __len__(self) -> int:
        return len(self.batches)


def loader(pairs: EncodedPairs, size: int, unit: str, seed: int = 0, pinned: bool = False) -> DataLoader[Batch]:
    """Batches of `size` sentences or tokens; `pinned` memory allows copies to a GPU that overlap its computation."""
    buckets = LengthBuckets(pairs, size, unit, seed)
    # As `sampler`, not as `batch_sampler`: a dataset that is indexed with a whole batch makes its tensors at once.
    return DataLoader(pairs, sampler=buckets, batch_size=None, pin_memory=pinned)
