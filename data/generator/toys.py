"""Toy tasks on letters, with known alignments, which an attention model learns within a minute.

The source is a sequence x_1 .. x_n of letters, n uniform from 1 to 20. The target is

- copy: x_1 .. x_n; link i-i
- reverse: x_n .. x_1; link i-(n-1-i)
- sort: the letters in alphabetical order (stable); link i-(position of letter i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from string import ascii_lowercase

from generator.grammar import Phrase, below

LONGEST = 20  # letters
TRAIN, VALIDATION, TEST = 4000, 500, 500  # pairs

Permutation = Callable[[Sequence[str]], Sequence[int]]  # source position of each target position


def copy(letters: Sequence[str]) -> Sequence[int]:
    return range(len(letters))


def reverse(letters: Sequence[str]) -> Sequence[int]:
    return range(len(letters))[::-1]


def sort(letters: Sequence[str]) -> Sequence[int]:
    return sorted(range(len(letters)), key=letters.__getitem__)


def toy_pairs(permutation: Permutation, random: Random) -> Iterator[Phrase]:
    """An endless stream of pairs of one task."""
    while True:
        length = 1 + below(random, LONGEST)
        yield toy_pair([ascii_lowercase[below(random, 26)] for _ in range(length)], permutation)


def toy_pair(letters: Sequence[str], permutation: Permutation) -> Phrase:
    """The pair of the letters and their permutation."""
    order = permutation(letters)
    links = tuple((i, j) for j, i in enumerate(order))
    return Phrase(tuple(letters), tuple(letters[i] for i in order), links)
