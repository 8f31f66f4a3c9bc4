"""The base of all scorers: F(query, key), how much a query wants to read a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.registry import Registry
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores

_scorers: Registry[Scorer] = Registry("scorer")


class Scorer(nn.Module, ABC):
    """One scoring equation. It neither masks nor normalises, and remembers nothing between calls.

    A concrete subclass can be named in a config as soon as it is imported. What it takes beyond the two sizes
    are its options; they need defaults, so that its name alone is a complete config.
    """

    equation: ClassVar[str] = ""  # for the listing: q is the query, k the key
    source: ClassVar[str] = ""  # paper and equation number
    needs_equal_sizes: ClassVar[bool] = False  # True where query and key must live in one space
    needs_history: ClassVar[bool] = False  # True where scores depend on earlier weights

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _scorers.add(cls)

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        need_positive(self, query_size=query_size, key_size=key_size)
        if self.needs_equal_sizes and query_size != key_size:
            raise ValueError(
                f"{type(self).__name__} needs query_size == key_size, got {query_size} and {key_size}; use General"
            )
        self.query_size = query_size
        self.key_size = key_size

    @abstractmethod
    def prepare(self, keys: Keys) -> Prepared:
        """All that does not depend on the query, once a sentence: (B, S, key_size) -> (B, S, ...)."""

    @abstractmethod
    def forward(self, query: Query, prepared: Prepared) -> Scores:
        """Scores (B, T, S) of T queries at once; how many there are changes the score of none."""


def scorer_class(name: str) -> type[Scorer]:
    """The scorer called `name` in a config; ValueError with the nearest name if there is none."""
    return _scorers.find(name)


def scorer_classes() -> dict[str, type[Scorer]]:
    """All scorers by config name."""
    return _scorers.classes()
