"""Training batches: what a training draws them from, and the pairs of a corpus in batches of similar length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import data

from seq2seq_attn.corpora.encoded import EncodedLines, Items, count_buckets, length_buckets
from seq2seq_attn.corpora.mixture import Mixture
from seq2seq_attn.corpora.source import Source, Tokens, pad
from seq2seq_attn.training.guided_alignment import CorpusLinks, TokenLinks


class Batch(NamedTuple):
    """Pairs of a source and a target, of similar length."""

    source: Source
    target: Tokens
    links: TokenLinks | None = None  # for guided alignment
    rows: NDArray[np.int64] | None = None  # the indices of the pairs in their corpus, if they have any

    @property
    def pairs(self) -> int:
        """Their number; of several processes, one may have none of a batch."""
        return len(self.target.lengths)

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on the device; lengths stay on the CPU, where packing needs them."""
        links = None if self.links is None else self.links.to(device)
        return self._replace(source=self.source.to(device), target=self.target.to(device), links=links)

    def select(self, pairs: Tensor) -> Batch:
        """The batch with only these pairs (M,), in this order, without the padding that they do not need."""
        links = None if self.links is None else self.links.select(pairs)
        rows = None if self.rows is None else self.rows[pairs.numpy()]
        return Batch(self.source.select(pairs), self.target.select(pairs), links, rows)

    def halves(self) -> list[Batch]:
        """Two batches with one half of the pairs each; of one pair, itself."""
        pairs = torch.arange(self.pairs)
        middle = len(pairs) // 2
        return [self.select(half) for half in (pairs[:middle], pairs[middle:]) if len(half)]

    def twice(self) -> Batch:
        """The batch with a copy of all its pairs after them."""
        return self.select(torch.arange(self.pairs).repeat(2))


_NO_TOKENS = Tokens(torch.zeros((0, 0), dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
NO_PAIRS = Batch(_NO_TOKENS, _NO_TOKENS, rows=np.zeros(0, dtype=np.int64))


class Dataset(Protocol):
    """What a training draws its batches from: `EncodedPairs`, or an object of your own with these methods.

    An epoch is one pass over the batches, in an order that its number determines.
    """

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        ...

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the epoch; directly after `load_state_dict`, those that were left of it."""
        ...

    def set_epoch(self, epoch: int) -> None:
        """Called before the batches of each epoch, counted from 0."""
        ...

    def shard(self, rank: int, world: int) -> Dataset:
        """The share of one of `world` processes: together, their n-th batches are the n-th batch of this dataset.

        A share of no pairs is a batch of none, such as `NO_PAIRS`.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where in its epoch the dataset is, in values that JSON can hold; a checkpoint has it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a `state_dict`, with the batch after the last one that was drawn before it was taken."""
        ...


class EncodedPairs:
    """The pairs of an encoded corpus, in batches of similar length (`length_buckets`), one window after the other.

    Args:
        source: What the encoder reads.
        target: Token ids, parallel to `source`.
        size: Of a batch, in `unit`.
        unit: `sentences`, or `tokens` of each side with padding.
        seed: Determines, with the number of the epoch, the batches and their order.
        mixture: The pairs that an epoch uses, and its windows; by default each once.
        links: Between the tokens of each pair, for guided alignment.
        collate: Makes a batch of sources, as `FrontEnd.collate`.
        encode: The source and target of some lines in another encoding, given the epoch, the window, and its lines. It
            is for batches of `sentences`: those of `tokens` are counted in the usual encoding.
        is_pinned: Whether batches are in pinned memory, so that copies to a GPU overlap its computation.
    """

    def __init__(
        self,
        source: EncodedLines,
        target: EncodedLines,
        size: int,
        unit: str = "sentences",
        seed: int = 0,
        *,
        mixture: Mixture | None = None,
        links: CorpusLinks | None = None,
        collate: Callable[[Items], Source] = pad,
        encode: Callable[[int, int, NDArray[np.int64]], tuple[EncodedLines, EncodedLines]] | None = None,
        is_pinned: bool = False,
    ) -> None:
        self.source, self.target = source, target
        self.size, self.unit, self.seed = size, unit, seed
        self.mixture = Mixture([len(source)], seed=seed) if mixture is None else mixture
        self.links, self.collate, self.encode, self.is_pinned = links, collate, encode, is_pinned
        self.rank, self.world = 0, 1
        self.epoch = self.first = self.drawn = 0  # the next pass leaves out the `first` batches of its epoch
        self.counts = [count_buckets(*lengths, size=size, unit=unit) for lengths in self.lengths()]  # by window

    def lengths(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Source and target lengths of the pairs of each window, `</s>` included, in their usual encoding."""
        for window in range(len(self.mixture)):
            rows = self.mixture.draw(0, window)
            yield self.source.lengths_of(rows), self.target.lengths_of(rows)

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, rows: Sequence[int]) -> Batch:
        """The batch of these pairs of the corpus, in their usual encoding."""
        lines = np.array(rows)
        return self._batch(self.source, self.target, lines, lines)

    def _batch(
        self, source: EncodedLines, target: EncodedLines, places: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Batch:
        if not len(rows):
            return NO_PAIRS
        links = None if self.links is None else self.links.of(rows)
        return Batch(self.collate(source.select(places)), pad(target.select(places)), links, rows)

    def __iter__(self) -> Iterator[Batch]:
        first, self.first = self.first, 0
        loader = data.DataLoader(
            _Stream(self._batches(self.epoch, first)), batch_size=None, collate_fn=_itself, pin_memory=self.is_pinned
        )
        return self._counted(iter(loader), first)

    def _counted(self, batches: Iterator[Batch], first: int) -> Iterator[Batch]:
        for self.drawn, batch in enumerate(batches, first + 1):
            yield batch

    def _batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch, from this one on; those of one window at a time are in memory."""
        for window in self.mixture.order(epoch):
            if first < self.counts[window]:
                yield from self._batches_of(window, epoch, first)
            first = max(0, first - self.counts[window])

    def _batches_of(self, window: int, epoch: int, first: int) -> Iterator[Batch]:
        source, target, rows = self.source, self.target, self.mixture.draw(epoch, window)
        places = rows
        if self.encode is not None:
            lines = self.mixture.lines(window)
            source, target = self.encode(epoch, window, lines)
            places = np.searchsorted(lines, rows)
        batches = length_buckets(
            source.lengths_of(places),
            target.lengths_of(places),
            size=self.size,
            unit=self.unit,
            seed=self.seed,
            epoch=epoch,
            window=window,
        )
        for number in range(first, len(batches)):
            own = batches[number][self.rank :: self.world]
            yield self._batch(source, target, places[own], rows[own])

    def set_epoch(self, epoch: int) -> None:
        """The next pass has the batches of this epoch."""
        if epoch != self.epoch:
            self.epoch, self.first, self.drawn = epoch, 0, 0

    def shard(self, rank: int, world: int) -> EncodedPairs:
        """Every `world`-th pair of each batch, from pair `rank` on; none of a batch that has no more than `rank`."""
        share = copy.copy(self)
        share.rank, share.world = rank, world
        return share

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the number of its batches that were drawn, which tells the window."""
        return {"epoch": self.epoch, "batch": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues within an epoch."""
        self.set_epoch(state["epoch"])
        self.first = self.drawn = state["batch"]


class _Stream(data.IterableDataset[Batch]):
    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return self.batches


def _itself(batch: Any) -> Any:
    return batch
