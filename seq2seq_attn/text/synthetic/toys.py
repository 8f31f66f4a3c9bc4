"""Toy tasks over the letters, with known alignments: what an attention model must learn within a minute.

Each takes a sequence x_1 .. x_n of letters, n uniform from 1 to 20, and is asked for

- copy: x_1 .. x_n; link i-i
- reverse: x_n .. x_1; link i-(n-1-i)
- sort: the letters in alphabetical order, equal ones in the order they came; link i-(place of letter i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from string import ascii_lowercase

from seq2seq_attn.text.synthetic.draw import below
from seq2seq_attn.text.synthetic.phrase import Phrase
from seq2seq_attn.text.synthetic.split import Parts, Stratum, divide

LONGEST = 20
TRAIN, VALIDATION, TEST = 4000, 500, 500

Permutation = Callable[[Sequence[str]], Sequence[int]]  # for each place of the target, the place in the source


def copy(letters: Sequence[str]) -> Sequence[int]:
    return range(len(letters))


def reverse(letters: Sequence[str]) -> Sequence[int]:
    return range(len(letters))[::-1]


def sort(letters: Sequence[str]) -> Sequence[int]:
    return sorted(range(len(letters)), key=letters.__getitem__)


def parts(permutation: Permutation, random: Random) -> Parts:
    """The whole corpus of one task."""
    return divide([Stratum(pairs(permutation, random), TRAIN, VALIDATION, TEST)], random)


def pairs(permutation: Permutation, random: Random) -> Iterator[Phrase]:
    """Endless pairs of one task."""
    while True:
        length = 1 + below(random, LONGEST)
        yield permuted([ascii_lowercase[below(random, 26)] for _ in range(length)], permutation)


def permuted(letters: Sequence[str], permutation: Permutation) -> Phrase:
    """The letters, and the letters in the order that the task asks for."""
    order = permutation(letters)
    links = tuple((i, j) for j, i in enumerate(order))
    return Phrase(tuple(letters), tuple(letters[i] for i in order), links)
