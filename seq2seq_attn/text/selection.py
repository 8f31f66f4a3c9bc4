"""Which pairs of a corpus are used: those that a model can learn from, and a split that leaks nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import write_bytes


@dataclass(frozen=True, eq=False)
class Filtered:
    """The pairs that stay, and how many were dropped and why. `str()` is one line for the user."""

    name: str  # of the corpus
    kept: NDArray[np.int64]  # indices in it
    blank: int
    too_long: int
    max_length: int

    def __str__(self) -> str:
        total = len(self.kept) + self.blank + self.too_long
        return (
            f"{self.name}: {len(self.kept):,} of {total:,} pairs kept; dropped {self.blank:,} "
            f"with a blank side, {self.too_long:,} with more than {self.max_length:,} pieces"
        )


def filter_pairs(
    name: str, source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64], max_length: int
) -> Filtered:
    """Drop pairs with a blank side, or a side of more than `max_length` pieces (`</s>` not counted).

    A side is blank when its length is 0. `name` is that of the corpus. Raises UserError when nothing is left.
    """
    blank = np.minimum(source_lengths, target_lengths) == 0
    too_long = ~blank & (np.maximum(source_lengths, target_lengths) > max_length)
    kept = np.flatnonzero(~(blank | too_long))
    filtered = Filtered(name, kept, int(blank.sum()), int(too_long.sum()), max_length)
    if not len(kept):
        raise UserError(f"nothing is left to train on: {filtered}; check the files, or raise the limit")
    return filtered


class Split(NamedTuple):
    """A corpus in three parts that share no source sentence."""

    train: ParallelCorpus
    validation: ParallelCorpus
    test: ParallelCorpus

    def save(self, folder: Path) -> None:
        """Write `PART.source` and `PART.target`, plain text, one sentence a line."""
        for part, corpus in self._asdict().items():
            for side, lines in (("source", corpus.source), ("target", corpus.target)):
                write_bytes(folder / f"{part}.{side}", "".join(f"{line}\n" for line in lines).encode())


def split_by_source(corpus: ParallelCorpus, *, validation: int, test: int, seed: int) -> Split:
    """Deal a corpus out by source sentence: all translations of one sentence fall into the same part.

    `validation` and `test` count distinct source sentences. A split by lines would leak: corpora such as
    Tatoeba's hold several translations of one sentence. Raises UserError when no sentence would be left for
    training.
    """
    sentences = list(dict.fromkeys(corpus.source))
    if validation + test >= len(sentences):
        raise UserError(
            f"{corpus.name}: {validation} validation and {test} test sentences leave none to train on; "
            f"the corpus has {len(sentences)} distinct source sentences"
        )
    random.Random(seed).shuffle(sentences)
    held_out = dict.fromkeys(sentences[:test], 2)
    held_out |= dict.fromkeys(sentences[test : test + validation], 1)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for index, sentence in enumerate(corpus.source):
        parts[held_out.get(sentence, 0)].append(index)
    return Split(*map(corpus.select, parts))
