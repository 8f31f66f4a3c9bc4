"""How large a corpus is, in whitespace-separated words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import ParallelCorpus


@dataclass(frozen=True)
class SideStatistics:
    """One side of a corpus: running words, distinct words, and words a line."""

    tokens: int
    types: int
    mean_length: float
    median_length: float
    max_length: int


@dataclass(frozen=True)
class CorpusStatistics:
    """Number of pairs, and both sides."""

    pairs: int
    source: SideStatistics
    target: SideStatistics


def stats(corpus: ParallelCorpus) -> CorpusStatistics:
    """Count a corpus. Raises UserError if it has no pair."""
    if not len(corpus):
        raise UserError(f"{corpus.name}: no pair to count")
    return CorpusStatistics(len(corpus), _side(corpus.source), _side(corpus.target))


def out_of_vocabulary(train: Iterable[str], test: Iterable[str]) -> float:
    """The share (0 to 1) of the running words of `test` that `train` does not have; 0 if `test` has none."""
    known = {word for line in train for word in line.split()}
    words = [word for line in test for word in line.split()]
    return sum(word not in known for word in words) / max(len(words), 1)


def _side(lines: Sequence[str]) -> SideStatistics:
    words = [line.split() for line in lines]
    lengths = [len(line) for line in words]
    types = {word for line in words for word in line}
    return SideStatistics(sum(lengths), len(types), fmean(lengths), median(lengths), max(lengths))
