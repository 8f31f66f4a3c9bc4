"""Seeded choices that give the same sentences under every version of Python.

Python promises the sequence of `Random.random()` for ever, that of `choice`, `sample` and `shuffle` it does not; so
every choice here is made from `random()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

Item = TypeVar("Item")


def below(random: Random, bound: int) -> int:
    """A whole number from 0 to bound - 1."""
    return int(random.random() * bound)


def shuffled(random: Random, items: Sequence[Item]) -> list[Item]:
    """The items in a random order (Fisher & Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = below(random, last + 1)
        order[last], order[other] = order[other], order[last]
    return order


class Draw:
    """The choices of one sentence.

    Words are dealt like cards, without replacement until a table is used up: a sentence seldom says a word twice, so
    its content cannot be guessed from what went before, and a gold link seldom has a double.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._decks: dict[tuple[Any, ...], list[Any]] = {}  # what is left of each table

    def deal(self, table: tuple[Item, ...]) -> Item:
        """An item of the table that this sentence has not used yet."""
        deck = self._decks.get(table)
        if not deck:
            deck = self._decks[table] = list(table)
        item: Item = deck.pop(below(self._random, len(deck)))
        return item

    def any(self, options: Sequence[Item]) -> Item:
        """Any of the options; repeats are weights."""
        return options[below(self._random, len(options))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability
