"""Sentences as token ids: one flat array, in memory or memory-mapped, and its batches of similar length."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.corpora.vocabulary import PAD
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import explained, writing

Ids = Sequence[int]
UNITS = ("tokens", "sentences")

_Lengths = Sequence[int] | NDArray[np.int64]

# Ratio of the longest to the shortest target of a band. A narrow band has little padding in the target, a wide one in
# the source, because it has more sentences to sort. In batches of 4,096 tokens of Multi30k, 5 % of the source and 3 %
# of the target are padding; with one band per target length it is 7 % and 1 %.
_BAND = 9 / 8


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentence i is `ids[offsets[i] : offsets[i + 1]]`; no sentence is empty, as each ends in `</s>`."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (sentences + 1,)

    @classmethod
    def of(cls, sentences: Iterable[Ids]) -> EncodedSentences:
        """Encode sentences. Raises UserError for an empty one, over which a softmax would be NaN."""
        ids, offsets = array("i"), array("q", [0])
        for sentence in sentences:
            ids.extend(sentence)
            if len(ids) == offsets[-1]:
                raise UserError(f"sentence {len(offsets) - 1} is empty; end every sentence with `</s>`")
            offsets.append(len(ids))
        return cls(np.asarray(ids), np.asarray(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(sentences,), `</s>` included."""
        return np.diff(self.offsets)

    def ids_of(self, row: int) -> list[int]:
        """The ids of one sentence."""
        ids: list[int] = self.ids[self.offsets[row] : self.offsets[row + 1]].tolist()
        return ids

    def padded(self, rows: Sequence[int] | NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens (B, L) of these sentences, padded with `<pad>` on the right, and their lengths (B,)."""
        rows = np.asarray(rows)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        positions = np.arange(lengths.max())
        is_token = positions < lengths[:, None]
        tokens = np.full(is_token.shape, PAD, dtype=np.int64)
        tokens[is_token] = self.ids[(starts[:, None] + positions)[is_token]]
        return tokens, lengths

    def save(self, folder: Path, side: str) -> None:
        """Write `SIDE.ids.npy` and `SIDE.offsets.npy`."""
        for name, values in (("ids", self.ids), ("offsets", self.offsets)):
            path = folder / f"{side}.{name}.npy"
            with writing(path) as file, explained(path):
                np.save(file, values)

    @classmethod
    def load(cls, folder: Path, side: str) -> EncodedSentences:
        """Memory-map what `save` wrote, so that processes share it and only the rows in use occupy memory.

        Raises OSError or ValueError if a file is missing or truncated.
        """
        return cls(*(np.asarray(np.load(folder / f"{side}.{name}.npy", mmap_mode="r")) for name in ("ids", "offsets")))


def length_buckets(
    source_lengths: _Lengths,
    target_lengths: _Lengths,
    *,
    size: int,
    unit: str = "tokens",
    seed: int,
    epoch: int = 0,
) -> list[list[int]]:
    """The batches of one epoch, in random order, as lists of sentence indices; each index is in exactly one.

    Sentences of similar length share a batch, so there is little padding. With `unit="tokens"`, a batch of N sentences
    has N * longest <= size on both sides, padding included; a sentence longer than that is a batch of its own. With
    `unit="sentences"`, every batch but one has `size` of them. Lengths are those that the model sees, `</s>` included.
    The same seed and epoch give the same batches. Raises UserError for a size below 1 or an unknown unit.
    """
    if size < 1 or unit not in UNITS:
        raise UserError(f"batches of {size} {unit}: the size must be at least 1, the unit one of {', '.join(UNITS)}")
    source, target = np.asarray(source_lengths, dtype=np.int64), np.asarray(target_lengths, dtype=np.int64)
    random = np.random.default_rng((seed, epoch))
    # Sort by bands of target length, within a band by source length, alternately ascending and descending, so that
    # source lengths agree where two bands meet. Pairs of equal lengths are shuffled, so batches differ by epoch.
    _, band = np.unique(np.floor(np.log(target) / np.log(_BAND)), return_inverse=True)
    snake = np.where(band % 2 == 0, source, -source)
    order = np.lexsort((random.random(len(source)), target, snake, band))

    lengths = np.maximum(source, target) if unit == "tokens" else np.ones_like(source)

    batches: list[list[int]] = []
    longest = 0
    for index, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        longest = max(longest, length)
        if not batches or (len(batches[-1]) + 1) * longest > size:
            batches.append([])
            longest = length
        batches[-1].append(index)
    random.shuffle(batches)
    return batches
