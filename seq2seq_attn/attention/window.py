"""The base of all windows: the part of the source that a query may read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.registry import Registry
from seq2seq_attn.attention.shapes import Query, Steps, TokenRows


class View(NamedTuple):
    """What a window leaves of a source, for each query."""

    is_open: Tensor | None  # (B, K, S) bool: tokens that may be read, at least one in every row; None: all may
    factor: Tensor | None  # (B, K, S): what the weights are multiplied with after they were normalised


class Window(nn.Module, ABC):
    """Around any scorer and normaliser: scores stay as they are, what lies outside gets a weight of exactly 0.

    A concrete subclass can be named in a config; its constructor takes `query_size` and options with defaults.
    """

    equation: ClassVar[str] = ""  # for the listing: t is the step, q the query, s the position
    source: ClassVar[str] = ""  # paper and equation number
    needs_steps: ClassVar[bool] = False  # True where the place hangs on how many steps were taken before

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _windows.add(cls)

    def __init__(self, query_size: int) -> None:
        super().__init__()
        self.query_size = query_size

    @abstractmethod
    def forward(self, query: Query, is_token: TokenRows, steps: Steps) -> View:
        """The view of K queries (B, K, query_size) on tokens (B, 1, S), after so many steps (B, K)."""


_windows: Registry[Window] = Registry("window", Window)


def token_count(is_token: TokenRows) -> Tensor:
    """How many tokens each row has: (B, 1, 1) of (B, 1, S)."""
    return is_token.sum(dim=-1, keepdim=True)


def positions(is_token: TokenRows) -> Tensor:
    """0 at the first token of a row, 1 at the second, ...: (B, 1, S); padding on either side does not count."""
    return torch.cumsum(is_token, dim=-1) - 1


def window_class(name: str) -> type[Window]:
    """The window called `name` in a config; ValueError with the nearest name if there is none."""
    return _windows.find(name)


def window_classes() -> dict[str, type[Window]]:
    """All windows by config name."""
    return _windows.classes()
