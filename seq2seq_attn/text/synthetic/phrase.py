"""The value that a synchronous grammar composes: words of two languages, and which are translations of each other."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Phrase(NamedTuple):
    """A phrase in both languages with its gold word alignment."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]  # (i, j): source word i and target word j, counted from 0

    @property
    def pharaoh(self) -> str:
        """The links in Pharaoh format, `i-j i-j ...`, in the order of the source."""
        return " ".join(f"{i}-{j}" for i, j in sorted(self.links))


EMPTY = Phrase((), (), ())


@cache
def word(source: str, target: str) -> Phrase:
    """An entry of the lexicon: every word of one side is linked to every word of the other; a side may be empty."""
    left, right = tuple(source.split()), tuple(target.split())
    return Phrase(left, right, tuple((i, j) for i in range(len(left)) for j in range(len(right))))


class Rule:
    """A synchronous rule: the same parts in the order of each language, with words that the construction brings.

    Symbols in capitals are parts, all others are words; `links` joins what the construction itself makes translations,
    words or whole parts:

        RELATIVE = Rule("NOUN that CLAUSE", "CLAUSE 的 NOUN", "that-的")
        RELATIVE(noun, clause)  # parts in the order of the source

    No symbol stands twice on a side, and both sides have the same parts.
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
        """The phrase that the rule makes of its parts, with their links moved to where their words now stand."""
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
    """The words of one side, and where the words of each symbol stand."""
    words: list[str] = []
    positions = {}
    for symbol in symbols:
        start = len(words)
        words += parts.get(symbol, (symbol,))
        positions[symbol] = range(start, len(words))
    return tuple(words), positions
