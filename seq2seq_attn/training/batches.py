"""Batches of a corpus on their way to the model: encoded once, bucketed anew every epoch, padded as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from seq2seq_attn.models.translator import Sentences, batch
from seq2seq_attn.text.batching import length_buckets
from seq2seq_attn.text.encoded import EncodedSentences


class Batch(NamedTuple):
    """Sentence pairs of similar length."""

    source: Sentences
    target: Sentences

    def to(self, device: torch.device) -> Batch:
        """The batch with its tokens on the device; lengths stay on the CPU, where packing wants them."""
        return Batch(
            *(part._replace(tokens=part.tokens.to(device, non_blocking=True)) for part in (self.source, self.target))
        )


class EncodedPairs(Dataset[Batch]):
    """The pairs of an encoded corpus, or those of its rows that are `kept`; several at once are a batch."""

    def __init__(
        self, source: EncodedSentences, target: EncodedSentences, kept: NDArray[np.int64] | None = None
    ) -> None:
        self.source = source
        self.target = target
        self.kept = np.arange(len(source)) if kept is None else kept

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, indices: list[int]) -> Batch:
        rows = self.kept[indices]
        return Batch(batch(self.source, rows), batch(self.target, rows))

    @property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of source and target of each pair, `</s>` included."""
        return self.source.lengths[self.kept], self.target.lengths[self.kept]


class Buckets(Sampler[list[int]]):
    """Length buckets, drawn anew from (seed, epoch); Lightning calls `set_epoch`, so a resumed run draws the same."""

    def __init__(self, pairs: EncodedPairs, size: int, unit: str, seed: int) -> None:
        self.lengths = pairs.lengths
        self.size, self.unit, self.seed = size, unit, seed
        self.epoch = 0
        self.batches = self._draw()

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = self._draw()

    def _draw(self) -> list[list[int]]:
        return length_buckets(*self.lengths, size=self.size, unit=self.unit, seed=self.seed, epoch=self.epoch)

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.batches  # read when the first is asked for: Lightning makes the iterator, then tells the epoch

    def __len__(self) -> int:
        return len(self.batches)


def loader(pairs: EncodedPairs, size: int, unit: str, seed: int = 0, pinned: bool = False) -> DataLoader[Batch]:
    """Batches of `size` sentences or tokens; a GPU fetches those in pinned memory while it computes."""
    buckets = Buckets(pairs, size, unit, seed)
    # A sampler of batches, not a batch sampler: Lightning tells the epoch to the first alone.
    return DataLoader(pairs, sampler=buckets, batch_size=None, pin_memory=pinned)
