"""The base class of positions: how self-attention knows the order of a sequence."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from torch import Tensor, nn

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.registry import Registry, kept_arguments


class Position(nn.Module, ABC):
    """Tells self-attention where its vectors stand; without one, permuted inputs give the same outputs, permuted.

    A subclass overrides one of the methods: `add` acts once, on the embedded sequence; `rotate` and `bias` act within
    every attention, on queries and keys or on scores. Positions count from 0, so padding must be on the right.

    A concrete subclass can be named in a configuration; its options need defaults.

    Args:
        size: The width of the embedded vectors.
        heads: The number of heads.

    Raises:
        ValueError: A number is not above 0, or the heads do not divide the size.
    """

    equation: ClassVar[str] = ""  # for the listing: x is a vector at position p, q a query at i, k a key at j
    source: ClassVar[str] = ""  # paper and equation number
    set_by_model: ClassVar[tuple[str, ...]] = ("size", "heads")
    in_attention: ClassVar[bool] = False  # True where every attention has one of its own, False where `add` acts

    def __init_subclass__(cls, *, registered: bool = True, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if registered:
            _positions.add(cls)

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        need_positive(self, size=size, heads=heads)
        if size % heads:
            raise unfit(self, f"heads that divide the size {size}", heads)
        self.size = size
        self.heads = heads

    def extra_repr(self) -> str:
        return kept_arguments(self)

    def add(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Adds their positions to embedded vectors.

        Args:
            vectors: x (B, N, size), at the positions start, start + 1, ...
            start: The position of the first.

        Returns:
            The vectors with their positions (B, N, size).
        """
        return vectors

    def rotate(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Turns queries or keys by their positions.

        Args:
            vectors: q or k (..., N, size / heads), at the positions start, start + 1, ...
            start: The position of the first.

        Returns:
            The vectors with their positions (..., N, size / heads).
        """
        return vectors

    def bias(self, queries: int, positions: int) -> Tensor | None:
        """Returns what positions add to the scores.

        Args:
            queries: T; the queries are the last T of the S positions.
            positions: S.

        Returns:
            The bias (heads, T, S), or None.
        """
        return None


_positions: Registry[Position] = Registry("position", Position)


def position_class(name: str) -> type[Position]:
    """Finds the position that a configuration names, as `scorer_class` does for scorers."""
    return _positions.find(name)


def position_classes() -> dict[str, type[Position]]:
    """Returns all positions by configuration name."""
    return _positions.classes()
