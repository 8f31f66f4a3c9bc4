"""What a context keeps of a source between `prepare` and the steps: immutable records, one row per sentence."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.shapes import IsToken, Keys, Query, Values


class PreparedSource(Protocol):
    """What `prepare` of every context returns."""

    @property
    def sentences(self) -> int:
        """B."""

    def select(self, rows: Tensor) -> PreparedSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""


class Source(NamedTuple):
    """What `Attention` reads for every query."""

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
    """The context and weights that every query gets."""

    context: Tensor  # (B, 1, value_size)
    weights: Tensor  # (B, 1, S)

    @property
    def sentences(self) -> int:
        """B."""
        return self.weights.shape[0]

    def select(self, rows: Tensor) -> ConstantSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        return ConstantSource(self.context.index_select(0, rows), self.weights.index_select(0, rows))


def check_source(
    part: nn.Module,
    keys: Keys,
    values: Values | None,
    is_token: IsToken | None,
    key_size: int | None = None,
    value_size: int | None = None,
) -> None:
    """ValueError in one line for shapes and masks that `prepare` cannot take, and for a sentence without a token.

    Only shapes and dtypes are looked at, except for the mask of empty sentences (see `_may_be_looked_at`). That a mask
    is True on padding instead of tokens cannot be seen.
    """
    if jit_traced():
        return
    name = type(part).__name__
    if keys.dim() != 3:
        hint = "; for one sentence give keys[None]" if keys.dim() == 2 else ""
        raise ValueError(f"{name} needs keys (sentences, positions, key_size), got {tuple(keys.shape)}{hint}")
    if key_size is not None and keys.shape[2] != key_size:
        raise ValueError(f"{name} was made for keys of {key_size} numbers, got {tuple(keys.shape)}")
    if values is not None and (values.dim() != 3 or values.shape[:2] != keys.shape[:2]):
        raise ValueError(f"{name} needs a value for every key {tuple(keys.shape)}, got values {tuple(values.shape)}")
    width = (keys if values is None else values).shape[2]
    if value_size is not None and width != value_size:
        raise ValueError(f"{name} was made for values of {value_size} numbers, got {width}; give it value_size={width}")
    if keys.shape[1] == 0:
        raise ValueError("the source has no positions; keep at least `</s>` in every sentence")
    if is_token is not None:
        _check_mask(name, keys, is_token)


def check_query(part: nn.Module, query: Query, sentences: int | None = None, query_size: int | None = None) -> None:
    """ValueError in one line for queries whose shape does not fit."""
    if jit_traced():
        return
    name = type(part).__name__
    if query.dim() != 3:
        hint = "; for one query per sentence give query[:, None]" if query.dim() == 2 else ""
        raise ValueError(f"{name} needs queries (sentences, queries, query_size), got {tuple(query.shape)}{hint}")
    if query_size is not None and query.shape[2] != query_size:
        raise ValueError(f"{name} was made for queries of {query_size} numbers, got {tuple(query.shape)}")
    if sentences is not None and query.shape[0] != sentences:
        raise ValueError(f"{name} needs queries of the {sentences} sentences of the source, got {tuple(query.shape)}")


def jit_traced() -> bool:
    """Whether `torch.jit.trace` records; sizes are tensors then, and a comparison of them is frozen."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _check_mask(name: str, keys: Keys, is_token: IsToken) -> None:
    if is_token.dtype != torch.bool:
        raise ValueError(
            f"{name} needs is_token as a bool tensor, True where a token is, got {is_token.dtype}; give mask.bool() "
            f"if it is 1 on tokens, mask == 0 if it is 1 or -inf on padding, as a key_padding_mask is"
        )
    if is_token.shape != keys.shape[:2]:
        raise ValueError(f"{name} needs is_token {tuple(keys.shape[:2])} for these keys, got {tuple(is_token.shape)}")
    if _may_be_looked_at(is_token):
        empty = (~is_token.any(dim=1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"no token in row(s) {empty} of the source; keep at least `</s>` in every sentence")


def _may_be_looked_at(is_token: IsToken) -> bool:
    """False on an accelerator, for which the CPU would have to wait at every batch, and where it has no contents.

    That is while a graph is traced, and within the transforms of `torch.func`.
    """
    traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return is_token.device.type == "cpu" and not traced
