"""Training, validation and test sets that share no source sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

from seq2seq_attn.text.synthetic.draw import shuffled
from seq2seq_attn.text.synthetic.phrase import Phrase


class Parts(NamedTuple):
    """A corpus, divided."""

    train: list[Phrase]
    validation: list[Phrase]
    test: list[Phrase]


class Stratum(NamedTuple):
    """Endless pairs of one kind, and how many of them each part gets."""

    pairs: Iterator[Phrase]
    train: int
    validation: int
    test: int


def divide(strata: Sequence[Stratum], random: Random) -> Parts:
    """As many pairs of each stratum as it asks for, no source twice, each part in random order."""
    parts = Parts([], [], [])
    seen: set[tuple[str, ...]] = set()
    for pairs, *sizes in strata:
        fresh = _unseen(pairs, seen)
        for part, size in zip(parts, sizes, strict=True):
            part += islice(fresh, size)
    return Parts(*(shuffled(random, part) for part in parts))


def _unseen(pairs: Iterator[Phrase], seen: set[tuple[str, ...]]) -> Iterator[Phrase]:
    for pair in pairs:
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair
