"""What a context keeps of a source between `prepare` and the steps: immutable records, one row a sentence."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq_attn.attention.shapes import IsToken, Keys


class PreparedSource(Protocol):
    """What every context's source can do."""

    @property
    def sentences(self) -> int:
        """B."""

    def select(self, rows: Tensor) -> PreparedSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""


class Source(NamedTuple):
    """A source that `Attention` reads anew for every query."""

    prepared: Tensor  # (B, S, ...) what the scorer made of the keys
    values: Tensor  # (B, S, value_size)
    is_token: Tensor | None  # (B, 1, S), ready to be broadcast over the queries; None where all are tokens

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]  # len() would make the number a constant of an exported graph

    def select(self, rows: Tensor) -> Source:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        is_token = None if self.is_token is None else self.is_token.index_select(0, rows)
        return Source(self.prepared.index_select(0, rows), self.values.index_select(0, rows), is_token)


class ConstantSource(NamedTuple):
    """A source that was read before the first query: the answer to all of them."""

    context: Tensor  # (B, 1, value_size)
    weights: Tensor  # (B, 1, S)

    @property
    def sentences(self) -> int:
        """B."""
        return self.weights.shape[0]

    def select(self, rows: Tensor) -> ConstantSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        return ConstantSource(self.context.index_select(0, rows), self.weights.index_select(0, rows))


def refuse_empty(keys: Keys, is_token: IsToken | None) -> None:
    """ValueError if a sentence has no token: there is nothing over which its weights could sum to 1."""
    if keys.shape[1] == 0:
        raise ValueError("the source has no positions; keep at least `</s>` in every sentence")
    if is_token is not None and _may_be_looked_at(is_token):
        empty = (~is_token.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"no token in row(s) {empty} of the source; keep at least `</s>` in every sentence")


def _may_be_looked_at(is_token: IsToken) -> bool:
    """Not on an accelerator, for which the CPU would have to wait at every batch, nor where it may have no contents.

    That is while a graph is being made, and within `torch.func.vmap` and its kin.
    """
    traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return is_token.device.type == "cpu" and not traced
