"""The base class of all windows: the part of the source that a query may read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.registry import Registry, kept_arguments
from seq2seq_attn.attention.shapes import Query, Steps, TokenRows


class View(NamedTuple):
    """The part of a source that each query may read."""

    is_open: Tensor | None  # (B, K, S) bool: tokens that may be read, at least one per row; None: all positions
    factor: Tensor | None  # (B, K, S): multiplies the normalized weights


class Window(nn.Module, ABC):
    """Restricts any scorer and normalizer: scores stay as they are, positions outside get a weight of exactly 0.

    A concrete subclass can be named in a configuration; its options need defaults.

    Args:
        query_size: The width of a query.
    """

    equation: ClassVar[str] = ""  # for the listing: t is the step, q the query, s the position
    source: ClassVar[str] = ""  # paper and equation number
    needs_steps: ClassVar[bool] = False  # True where the window depends on the number of earlier steps
    has_factor: ClassVar[bool] = False  # True where it multiplies the normalized weights, which then sum to less than 1

    def __init_subclass__(cls, *, registered: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if registered:
            _windows.add(cls)

    def __init__(self, query_size: int) -> None:
        super().__init__()
        self.query_size = query_size

    def extra_repr(self) -> str:
        return kept_arguments(self)

    @abstractmethod
    def forward(self, query: Query, is_token: TokenRows, steps: Steps) -> View:
        """Restricts what K queries may read.

        Args:
            query: q (B, K, query_size).
            is_token: True on tokens (B, 1, S), or (B, K, S) if the queries may read different positions; positions
                that a query may not read are treated as padding.
            steps: The number of earlier steps (B, K) int64.

        Returns:
            The view of each query.
        """


_windows: Registry[Window] = Registry("window", Window)


def token_count(is_token: TokenRows) -> Tensor:
    """The number of tokens of each row: (B, 1, S) to (B, 1, 1), (B, K, S) to (B, K, 1)."""
    return is_token.sum(dim=-1, keepdim=True)


def token_positions(is_token: TokenRows) -> Tensor:
    """0 at the first token of a row, 1 at the second, ...; padding on either side does not count."""
    return torch.cumsum(is_token, dim=-1) - 1


def window_class(name: str) -> type[Window]:
    """Finds the window that a configuration names, as `scorer_class` does for scorers."""
    return _windows.find(name)


def window_classes() -> dict[str, type[Window]]:
    """Returns all windows by configuration name."""
    return _windows.classes()
