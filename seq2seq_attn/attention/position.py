"""The base class of positions: how self-attention knows the order of a sequence."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from torch import Tensor, nn

from seq2seq_attn.attention.registry import Registry, need_positive


class Position(nn.Module, ABC):
    """Tells self-attention where its vectors stand; without one, permuted inputs give the same outputs, permuted.

    A subclass overrides one of the methods: `add` acts once, on the embedded sequence; `rotate` and `bias` act within
    every attention, on queries and keys or on scores. Positions count from 0, so padding must be on the right.

    A concrete subclass can be named in a configuration. Its constructor takes the `size` of the embedded vectors, the
    number of `heads`, and options with defaults.
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
            raise ValueError(f"{type(self).__name__} needs heads that divide the size {size}, got {heads}")
        self.size = size
        self.heads = heads

    def add(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Vectors (B, N, size) that stand at the positions start, start + 1, ..., with their positions."""
        return vectors

    def rotate(self, vectors: Tensor, start: int = 0) -> Tensor:
        """Queries or keys (..., N, size / heads) at the positions start, start + 1, ..., with their positions."""
        return vectors

    def bias(self, queries: int, positions: int) -> Tensor | None:
        """What the last T = `queries` of S = `positions` positions add to their scores: (heads, T, S), or None."""
        return None


_positions: Registry[Position] = Registry("position", Position)


def position_class(name: str) -> type[Position]:
    """The position named in a configuration, by its name or its file; errors as for `Registry.find`."""
    return _positions.find(name)


def position_classes() -> dict[str, type[Position]]:
    """All positions by configuration name."""
    return _positions.classes()
