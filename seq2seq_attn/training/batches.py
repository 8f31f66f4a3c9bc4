"""Training batches: what a training draws them from, and the pairs of a corpus in batches of similar length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import data

from seq2seq_attn.corpora.encoded import EncodedLines, Items, length_buckets
from seq2seq_attn.corpora.source import Source, Tokens, pad
from seq2seq_attn.training.guided_alignment import CorpusLinks, TokenLinks


class Batch(NamedTuple):
    """Pairs of a source and a target, of similar length."""

    source: Source
    target: Tokens
    links: TokenLinks | None = None  # for guided alignment
    rows: NDArray[np.int64] | None = None  # the indices of the pairs in their corpus, if they have any

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on the device; lengths stay on the CPU, where packing needs them."""
        links = None if self.links is None else self.links.to(device)
        return self._replace(source=self.source.to(device), target=self.target.to(device), links=links)

    def select(self, pairs: Tensor) -> Batch:
        """The batch with only these pairs (M,), in this order, without the padding that they do not need."""
        links = None if self.links is None else self.links.select(pairs)
        rows = None if self.rows is None else self.rows[pairs.numpy()]
        return Batch(self.source.select(pairs), self.target.select(pairs), links, rows)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches with one half of the pairs each."""
        pairs = torch.arange(len(self.target.lengths))
        middle = len(pairs) // 2
        return self.select(pairs[:middle]), self.select(pairs[middle:])

    def twice(self) -> Batch:
        """The batch with a copy of all its pairs after them."""
        return self.select(torch.arange(len(self.target.lengths)).repeat(2))


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
        """The share of one of `world` processes: together, their n-th batches are the n-th batch of this dataset."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where in its epoch the dataset is, in values that JSON can hold; a checkpoint has it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a `state_dict`, with the batch after the last one that was drawn before it was taken."""
        ...


class EncodedPairs(data.Dataset[Batch]):
    """The pairs of an encoded corpus, in batches of similar length (`length_buckets`).

    Args:
        source: What the encoder reads.
        target: Token ids, parallel to `source`.
        size: Of a batch, in `unit`.
        unit: `sentences`, or `tokens` of each side with padding.
        seed: Determines, with the number of the epoch, the batches and their order.
        kept: The lines of the corpus that are used; all by default.
        links: Between the tokens of each pair, for guided alignment.
        collate: Makes a batch of sources, as `FrontEnd.collate`.
        encode: A new encoding of source and target in every epoch after the first.
        draw: The lines that an epoch uses, instead of `kept`; always as many, of which one may occur twice.
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
        kept: NDArray[np.int64] | None = None,
        links: CorpusLinks | None = None,
        collate: Callable[[Items], Source] = pad,
        encode: Callable[[int], tuple[EncodedLines, EncodedLines]] | None = None,
        draw: Callable[[int], NDArray[np.int64]] | None = None,
        is_pinned: bool = False,
    ) -> None:
        self.source, self.target = source, target
        self.size, self.unit, self.seed = size, unit, seed
        self.kept = np.arange(len(source)) if kept is None else kept
        self.links, self.collate, self.encode, self.draw, self.is_pinned = links, collate, encode, draw, is_pinned
        self.rank, self.world = 0, 1
        self.epoch = self.first = self.drawn = 0  # the next pass leaves out the `first` batches of its epoch
        self.batches = self._batches()

    @property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths of each pair, `</s>` included."""
        return self.source.lengths[self.kept], self.target.lengths[self.kept]

    def _batches(self) -> list[list[int]]:
        if self.draw is not None:
            self.kept = self.draw(self.epoch)
        return length_buckets(*self.lengths, size=self.size, unit=self.unit, seed=self.seed, epoch=self.epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, pairs: list[int]) -> Batch:
        """The batch of these of the pairs that are used."""
        rows = self.kept[pairs]
        links = None if self.links is None else self.links.of(rows)
        return Batch(self.collate(self.source.select(rows)), pad(self.target.select(rows)), links, rows)

    def __iter__(self) -> Iterator[Batch]:
        first, self.first = self.first, 0
        own = [batch[self.rank :: self.world] for batch in self.batches[first:]]
        # `own` as sampler: a dataset that is indexed with a whole batch makes its tensors at once.
        loader: data.DataLoader[Batch] = data.DataLoader(
            self, sampler=own, batch_size=None, collate_fn=_itself, pin_memory=self.is_pinned
        )
        return self._counted(iter(loader), first)

    def _counted(self, batches: Iterator[Batch], first: int) -> Iterator[Batch]:
        for self.drawn, batch in enumerate(batches, first + 1):
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Draws the batches of another epoch."""
        if epoch != self.epoch:
            self.epoch, self.first, self.drawn = epoch, 0, 0
            if self.encode is not None:
                self.source, self.target = self.encode(epoch)
            self.batches = self._batches()

    def shard(self, rank: int, world: int) -> EncodedPairs:
        """Every `world`-th pair of each batch, from pair `rank` on; none of a batch that has no more than `rank`."""
        share = copy.copy(self)
        share.rank, share.world = rank, world
        return share

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the number of its batches that were drawn."""
        return {"epoch": self.epoch, "batch": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues within an epoch."""
        self.set_epoch(state["epoch"])
        self.first = self.drawn = state["batch"]


def _itself(batch: Any) -> Any:
    return batch
