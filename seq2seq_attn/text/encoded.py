"""Sentences as token ids in one flat array, in memory or mapped from its file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import explained, writing
from seq2seq_attn.text.vocabulary import PAD

Ids = Sequence[int]


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentence i is `ids[offsets[i] : offsets[i + 1]]`; none is empty, as `</s>` closes it."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]  # (sentences + 1,)

    @classmethod
    def of(cls, sentences: Iterable[Ids]) -> EncodedSentences:
        """Raises UserError if a sentence has no token at all: a softmax over nothing is not a number."""
        ids, offsets = array("i"), array("q", [0])
        for sentence in sentences:
            ids.extend(sentence)
            if len(ids) == offsets[-1]:
                raise UserError(f"sentence {len(offsets) - 1} has no token; close every sentence by `</s>`")
            offsets.append(len(ids))
        return cls(np.asarray(ids), np.asarray(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(sentences,), `</s>` included."""
        return np.diff(self.offsets)

    def padded(self, rows: Sequence[int] | NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens (B, L) of these sentences, `<pad>` behind the shorter ones, and their lengths (B,)."""
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
        """What `save` wrote, left in its files: processes share it, and memory holds what is read of it.

        Raises OSError or ValueError if it is not there, or not whole.
        """
        return cls(*(np.asarray(np.load(folder / f"{side}.{name}.npy", mmap_mode="r")) for name in ("ids", "offsets")))
