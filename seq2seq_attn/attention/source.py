"""What a context keeps of a source between `prepare` and the steps, and what of it each query may read.

Records are immutable, one row per sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.history import History
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
    bias: Tensor | None = None  # added to the scores; `restricted` alone sets it

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]  # len() would make the number a constant of an exported graph

    def select(self, rows: Tensor) -> Source:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        is_token = None if self.is_token is None else self.is_token.index_select(0, rows)
        return Source(self.prepared.index_select(0, rows), self.values.index_select(0, rows), is_token)

    def append(self, more: Source) -> Source:
        """The record with the positions of another one behind its own."""
        prepared = torch.cat((self.prepared, more.prepared), dim=1)
        values = torch.cat((self.values, more.values), dim=1)
        if self.is_token is None and more.is_token is None:
            return Source(prepared, values, is_token=None)
        return Source(prepared, values, torch.cat((self.token_mask(), more.token_mask()), dim=2))

    def token_mask(self) -> Tensor:
        """`is_token`, also where it is None because all are tokens."""
        if self.is_token is not None:
            return self.is_token
        return self.values.new_ones((self.sentences, 1, self.values.shape[1]), dtype=torch.bool)

    def for_query(self, step: int) -> Source:
        """Of a record that `restricted` made for T queries, the one for query `step` alone."""
        is_token, bias = (
            part if part is None or part.shape[1] == 1 else part[:, step : step + 1]
            for part in (self.is_token, self.bias)
        )
        return self._replace(is_token=is_token, bias=bias)


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
        check_mask(part, keys, is_token)
        if _may_be_looked_at(is_token):
            empty = (~is_token.any(dim=1)).nonzero().flatten().tolist()
            if empty:
                raise ValueError(f"no token in row(s) {empty} of the source; keep at least `</s>` in every sentence")


def check_extension(part: nn.Module, sentences: int, keys: Keys, is_token: IsToken | None, *within: Any) -> None:
    """ValueError in one line where nothing can be appended, or not these keys; `within` are scorers and normalisers."""
    for each in within:
        if not each.can_extend:
            raise ValueError(
                f"{type(each).__name__} cannot append to a source: what it keeps depends on all positions; prepare the "
                f"longer source at once"
            )
    if jit_traced():
        return
    if keys.shape[0] != sentences:
        raise ValueError(
            f"{type(part).__name__} needs keys of the {sentences} sentences of the source, got {tuple(keys.shape)}"
        )
    if is_token is not None:  # a sentence may end here: it has tokens before
        check_mask(part, keys, is_token)


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


def restricted(
    part: nn.Module,
    query: Query,
    source: Source,
    history: History | None,
    may_read: Tensor | None,
    causal: bool,
    bias: Tensor | None,
) -> Source:
    """The source as T queries see it: `is_token` (B, T, S) is what each may read, `bias` is added to its scores.

    ValueError in one line: a shape or dtype does not fit, causal queries are hypotheses or more than positions, or
    nothing is left to a query. The latter is seen where a source without tokens is (`Context.prepare`).
    """
    if may_read is None and bias is None and not causal:
        return source
    shape = query.shape[0], query.shape[1], source.values.shape[1]
    name = type(part).__name__
    if causal and history is not None:
        raise ValueError(
            f"{name}: queries with a history are hypotheses of one step, among which nothing is causal; give may_read, "
            f"or a source that ends at this step"
        )
    masks = [] if source.is_token is None else [source.is_token]
    if may_read is not None:
        if may_read.dtype != torch.bool:
            raise ValueError(
                f"{name} needs may_read as a bool tensor, True where a query may read, got {may_read.dtype}; give "
                f"mask == 0 if it is -inf where a query may not, ~mask if it is True there, as an attn_mask is"
            )
        masks.append(_per_query(name, "may_read", may_read, shape))
    if causal:
        masks.append(_causal(name, query, source.values))
    if bias is not None:
        if not bias.dtype.is_floating_point:
            raise ValueError(f"{name} needs a floating-point bias, got {bias.dtype}; a bool mask is given as may_read")
        bias = _per_query(name, "bias", bias, shape)
        masks.append(bias > -torch.inf)
    is_open = masks[0]
    for mask in masks[1:]:
        is_open = is_open & mask
    if _may_be_looked_at(is_open):
        closed = (~is_open.any(dim=-1)).nonzero()
        if len(closed):
            row, step = closed[0].tolist()
            raise ValueError(
                f"{name}: nothing is left to read for query {step} of row {row}, one of {len(closed)} such; leave each "
                f"query a token (causal queries on padding have none where padding is on the left)"
            )
    return source._replace(is_token=is_open, bias=bias)


def refuse(part: nn.Module, reason: str, **options: Tensor | bool | None) -> None:
    """ValueError with the reason where one of the options is given to a part that has no use for it."""
    for name, option in options.items():
        if option is not None and option is not False:
            raise ValueError(f"{type(part).__name__} takes no {name}: {reason}")


def _per_query(name: str, argument: str, tensor: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """The tensor with three dimensions, each as in `shape` or 1."""
    if not jit_traced() and (
        tensor.dim() > 3
        or any(size not in (1, full) for size, full in zip(reversed(tensor.shape), reversed(shape), strict=False))
    ):
        raise ValueError(
            f"{name} needs a {argument} that broadcasts to (sentences, queries, positions) = {tuple(shape)}, got "
            f"{tuple(tensor.shape)}"
        )
    return tensor[(None,) * (3 - tensor.dim())]


def _causal(name: str, query: Query, values: Values) -> Tensor:
    """(1, T, S): the queries are the last T of S positions, and each may read those up to its own."""
    queries, positions = query.shape[1], values.shape[1]
    if not jit_traced() and queries > positions:
        raise ValueError(
            f"{name}: {queries} causal queries need as many positions at least, as they are the last of the source, "
            f"got {positions}"
        )
    ahead = positions - queries
    position, step = (torch.arange(size, device=values.device) for size in (positions, queries))
    return (position <= step[:, None] + ahead)[None]


def jit_traced() -> bool:
    """Whether `torch.jit.trace` records; sizes are tensors then, and a comparison of them is frozen."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def is_exported() -> bool:
    """Whether the operations go into a graph for any length, in which a choice by length would be the example's."""
    is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # not in torch 2.6
    return jit_traced() or is_exporting()


def check_mask(part: nn.Module, keys: Keys, is_token: IsToken) -> None:
    """ValueError in one line for a mask whose dtype or shape does not fit the keys."""
    name = type(part).__name__
    if is_token.dtype != torch.bool:
        raise ValueError(
            f"{name} needs is_token as a bool tensor, True where a token is, got {is_token.dtype}; give mask.bool() "
            f"if it is 1 on tokens, mask == 0 if it is 1 or -inf on padding, as a key_padding_mask is"
        )
    if is_token.shape != keys.shape[:2]:
        hint = "; give a mask per query as may_read" if is_token.dim() == 3 else ""
        raise ValueError(
            f"{name} needs is_token {tuple(keys.shape[:2])} for these keys, got {tuple(is_token.shape)}{hint}"
        )


def _may_be_looked_at(mask: Tensor) -> bool:
    """False on an accelerator, for which the CPU would have to wait at every batch, and where it has no contents.

    That is while a graph is traced, and within the transforms of `torch.func`.
    """
    traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return mask.device.type == "cpu" and not traced
