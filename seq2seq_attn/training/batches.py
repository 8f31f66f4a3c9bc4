"""Batches of a corpus on their way to the model: encoded once, bucketed anew every epoch, padded as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from seq2seq_attn.models.sentences import pad
from seq2seq_attn.models.translator import Sentences
from seq2seq_attn.text.batching import length_buckets

Ids = Sequence[int]


class Batch(NamedTuple):
    """Sentence pairs of similar length."""

    source: Sentences
    target: Sentences

    def to(self, device: torch.device) -> Batch:
        """The batch with its tokens on the device; lengths stay on the CPU, where packing wants them."""
        return Batch(
            *(part._replace(tokens=part.tokens.to(device, non_blocking=True)) for part in (self.source, self.target))
        )


class EncodedPairs(Dataset[tuple[Ids, Ids]]):
    """Token ids of a corpus, each sentence closed by `</s>`."""

    def __init__(self, source: Sequence[Ids], target: Sequence[Ids]) -> None:
        self.source = source
        self.target = target

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Ids, Ids]:
        return self.source[index], self.target[index]


class Buckets(Sampler[list[int]]):
    """Length buckets, drawn anew from (seed, epoch); Lightning calls `set_epoch`, so a resumed run draws the same."""

    def __init__(self, pairs: EncodedPairs, size: int, unit: str, seed: int) -> None:
        self.lengths = [len(ids) for ids in pairs.source], [len(ids) for ids in pairs.target]
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
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def collate(pairs: list[tuple[Ids, Ids]]) -> Batch:
    """A batch of encoded pairs."""
    sources, targets = zip(*pairs, strict=True)
    return Batch(pad(sources), pad(targets))


def loader(pairs: EncodedPairs, size: int, unit: str, seed: int = 0) -> DataLoader[tuple[Ids, Ids]]:
    """Batches of `size` sentences or tokens."""
    return DataLoader(pairs, batch_sampler=Buckets(pairs, size, unit, seed), collate_fn=collate)
