"""The mechanics of a synchronous grammar: phrases with alignments, the rules that compose them, and random choices.

Python guarantees the sequence of `Random.random()` for all versions, but not that of `choice`, `sample` and `shuffle`,
so every choice here is made with `random()`: a seed gives the same sentences everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple, TypeVar

_Item = TypeVar("_Item")


class Phrase(NamedTuple):
    """A phrase in both languages with its gold word alignment."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]  # (i, j): source word i and target word j, counted from 0

    @property
    def pharaoh(self) -> str:
        """The links in Pharaoh format, `i-j i-j ...`, in source order."""
        return " ".join(f"{i}-{j}" for i, j in sorted(self.links))


EMPTY = Phrase((), (), ())


@cache
def word(source: str, target: str) -> Phrase:
    """A lexical entry: every word of one side is linked to every word of the other. A side may be empty."""
    left, right = tuple(source.split()), tuple(target.split())
    return Phrase(left, right, tuple((i, j) for i in range(len(left)) for j in range(len(right))))


class Rule:
    """A synchronous rule: the same parts in the order of each language, plus words of the construction.

    Symbols in capitals are parts, all others are words. `links` are the translations that the construction itself adds,
    between words or whole parts:

        RELATIVE = Rule("NOUN that CLAUSE", "CLAUSE 的 NOUN", "that-的")
        RELATIVE(noun, clause)  # parts in source order

    Raises ValueError if a symbol occurs twice on a side, or if the two sides have different parts.
    """

    def __init__(self, source: str, target: str, links: str = "") -> None:
        self._source = source.split()
        self._target = target.split()
        self._links = [(left, right) for left, _, right in (link.partition("-") for link in links.split())]
        self._parts = [symbol for symbol in self._source if symbol.isupper()]
        for side in (self._source, self._target):
            if len(set(side)) < len(side) or set(self._parts) != {s for s in side if s.isupper()}:
                raise ValueError(f"the rule {source!r} -> {target!r} repeats a symbol or loses a part")

    def __call__(self, *parts: Phrase) -> Phrase:
        """Compose the parts, given in source order; their links are shifted to the new positions of their words."""
        filled = dict(zip(self._parts, parts, strict=True))
        source, source_at = _lay_out(self._source, {name: part.source for name, part in filled.items()})
        target, target_at = _lay_out(self._target, {name: part.target for name, part in filled.items()})
        links = [
            (source_at[name].start + i, target_at[name].start + j)
            for name, part in filled.items()
            for i, j in part.links
        ]
        links += [(i, j) for left, right in self._links for i in source_at[left] for j in target_at[right]]
        return Phrase(source, target, tuple(links))


def _lay_out(symbols: list[str], parts: dict[str, tuple[str, ...]]) -> tuple[tuple[str, ...], dict[str, range]]:
    """The words of one side, and the positions of each symbol's words."""
    words: list[str] = []
    positions = {}
    for symbol in symbols:
        start = len(words)
        words += parts.get(symbol, (symbol,))
        positions[symbol] = range(start, len(words))
    return tuple(words), positions


def below(random: Random, bound: int) -> int:
    """A uniform integer from 0 to bound - 1."""
    return int(random.random() * bound)


def shuffled(random: Random, items: Sequence[_Item]) -> list[_Item]:
    """The items in a random order (Fisher & Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = below(random, last + 1)
        order[last], order[other] = order[other], order[last]
    return order


class Draw:
    """The random choices of one sentence.

    Words are dealt without replacement until a table is exhausted. A sentence therefore rarely repeats a word, its
    content cannot be predicted from its beginning, and gold links are rarely ambiguous.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._decks: dict[tuple[Any, ...], list[Any]] = {}  # the remaining items of each table

    def deal(self, table: tuple[_Item, ...]) -> _Item:
        """An item of the table that this sentence has not used yet."""
        deck = self._decks.get(table)
        if not deck:
            deck = self._decks[table] = list(table)
        item: _Item = deck.pop(below(self._random, len(deck)))
        return item

    def any(self, options: Sequence[_Item]) -> _Item:
        """A uniform choice; repeated options are weights."""
        return options[below(self._random, len(options))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability
