"""What steps read, and what they carry: both are explicit, and never changed in place.

The records that `prepare` returns have one row per sentence. A history is the state of attention from step to step:

    history = context.start(source)
    contexts, weights, history = context(query, source, history)

It is a tensor (B, K, ...), with one entry for each of the K hypotheses of each of the B sentences, or a tuple of
histories, nested like the parts, and beam search reorders it like any state. The history of a part without state is the
empty tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.checks import (
    check_bias,
    check_broadcast,
    jit_traced,
    need_tensors,
    reading_is_free,
    unfit,
)
from seq2seq_attn.attention.shapes import Query, Values

History: TypeAlias = Any  # a tensor or a tuple of histories

NOTHING: History = ()


def each_tensor(change: Callable[[Tensor], Tensor], history: History) -> History:
    """Applies a function to every tensor of a history.

    Args:
        change: The function, such as the choice of hypotheses in beam search.
        history: A tensor, or a tuple of histories.

    Returns:
        A history of the same structure.
    """
    if isinstance(history, tuple):
        return tuple([part if part is NOTHING else each_tensor(change, part) for part in history])
    return change(history)


def one_hot_first(positions: Tensor) -> Tensor:
    """1 at the first position and 0 elsewhere, in the shape (..., S) of the given tensor."""
    return F.pad(torch.ones_like(positions[..., :1]), (0, positions.shape[-1] - 1))


class PreparedSource(Protocol):
    """The interface of the record that `prepare` of a context returns."""

    @property
    def sentences(self) -> int:
        """B."""

    def select(self, rows: Tensor) -> PreparedSource:
        """Returns the record with some of its sentences, as beam search needs it.

        Args:
            rows: Numbers of sentences (M,) int64, in any order; one may be repeated.
        """


class AttentionSource(NamedTuple):
    """The record that `Attention` reads for every query."""

    prepared: Tensor  # (B, S, ...), computed from the keys by the scorer
    values: Tensor  # (B, S, value_size)
    is_token: Tensor | None  # (B, 1, S), broadcast over the queries; None if all positions are tokens
    bias: Tensor | None = None  # added to the scores; set only by `restricted`

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]  # len() would make the number a constant of an exported graph

    def select(self, rows: Tensor) -> AttentionSource:
        """Returns the record with these sentences (M,), as `PreparedSource.select`."""
        is_token = None if self.is_token is None else self.is_token.index_select(0, rows)
        return AttentionSource(self.prepared.index_select(0, rows), self.values.index_select(0, rows), is_token)

    def append(self, more: AttentionSource) -> AttentionSource:
        """Returns the record with the positions of another one appended."""
        prepared = torch.cat((self.prepared, more.prepared), dim=1)
        values = torch.cat((self.values, more.values), dim=1)
        if self.is_token is None and more.is_token is None:
            return AttentionSource(prepared, values, is_token=None)
        return AttentionSource(prepared, values, torch.cat((self.token_mask(), more.token_mask()), dim=2))

    def token_mask(self) -> Tensor:
        """Returns `is_token` as a tensor, even if it is None because all positions are tokens."""
        if self.is_token is not None:
            return self.is_token
        return self.values.new_ones((self.sentences, 1, self.values.shape[1]), dtype=torch.bool)

    def for_query(self, step: int) -> AttentionSource:
        """Returns the part for query `step` of a record that `restricted` returned for T queries."""
        is_token, bias = (
            part if part is None or part.shape[1] == 1 else part[:, step : step + 1]
            for part in (self.is_token, self.bias)
        )
        return self._replace(is_token=is_token, bias=bias)


class ConstantSource(NamedTuple):
    """The context and the weights that are the same for every query."""

    context: Tensor  # (B, 1, value_size)
    weights: Tensor  # (B, 1, S)

    @property
    def sentences(self) -> int:
        """B."""
        return self.weights.shape[0]

    def select(self, rows: Tensor) -> ConstantSource:
        """Returns the record with these sentences (M,), as `PreparedSource.select`."""
        return ConstantSource(self.context.index_select(0, rows), self.weights.index_select(0, rows))


def restricted(
    part: nn.Module,
    query: Query,
    source: AttentionSource,
    history: History | None,
    may_read: Tensor | None,
    causal: bool,
    bias: Tensor | None,
) -> AttentionSource:
    """The source for T queries: `is_token` (B, T, S) is True where each may read, `bias` is added to its scores.

    ValueError: a shape or dtype does not fit, causal queries have a history or outnumber the positions, or a query may
    read no position, if reading the mask is free.
    """
    if may_read is None and bias is None and not causal:
        return source
    need_tensors(part, may_read=may_read, bias=bias)
    shape = query.shape[0], query.shape[1], source.values.shape[1]
    name = type(part).__name__
    masks = [] if source.is_token is None else [source.is_token]
    if may_read is not None:
        if may_read.dtype != torch.bool:
            way_out = "give mask == 0 for a mask with -inf at excluded positions, ~mask for one with True there"
            raise unfit(part, "may_read as a bool tensor, True where a query may read", may_read.dtype, way_out)
        masks.append(_per_query(part, "may_read", may_read, shape))
    if causal:
        if history is not None:
            raise ValueError(
                f"{name}: queries with a history are hypotheses of one step and cannot be causal; give may_read, or a "
                f"source that ends at this step"
            )
        masks.append(_up_to_its_own(part, query, source.values))
    if bias is not None:
        check_bias(part, bias)
        bias = _per_query(part, "bias", bias, shape)
        masks.append(bias > -torch.inf)
    is_open = reduce(torch.logical_and, masks)
    is_open = is_open.expand(*is_open.shape[:2], shape[2])  # a window counts the positions that are open
    if reading_is_free(is_open):
        closed = (~is_open.any(dim=-1)).nonzero()
        if len(closed):
            row, step = closed[0].tolist()
            raise ValueError(
                f"{name}: query {step} of row {row} may read no position, one of {len(closed)} such; leave each "
                f"query at least one token (causal queries on padding have none if padding is on the left)"
            )
    return source._replace(is_token=is_open, bias=bias)


def _per_query(part: nn.Module, argument: str, tensor: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """The tensor with three dimensions, each as in `shape` or 1."""
    check_broadcast(part, argument, tensor, shape)
    return tensor[(None,) * (3 - tensor.dim())]


def _up_to_its_own(part: nn.Module, query: Query, values: Values) -> Tensor:
    """(1, T, S): the queries are the last T of S positions, and each may read those up to its own."""
    queries, positions = query.shape[1], values.shape[1]
    if not jit_traced() and queries > positions:
        raise unfit(part, f"as many positions as its {queries} causal queries, which are the last of them", positions)
    position, step = (torch.arange(size, device=values.device) for size in (positions, queries))
    return (position <= step[:, None] + positions - queries)[None]
