"""The records that `prepare` returns and every step reads, and checks of shapes and masks.

Records are immutable and have one row per sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.history import History
from seq2seq_attn.attention.shapes import IsToken, Keys, Query, Values


class PreparedSource(Protocol):
    """The interface of the record that `prepare` of a context returns."""

    @property
    def sentences(self) -> int:
        """B."""

    def select(self, rows: Tensor) -> PreparedSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""


class Source(NamedTuple):
    """The record that `Attention` reads for every query."""

    prepared: Tensor  # (B, S, ...), computed from the keys by the scorer
    values: Tensor  # (B, S, value_size)
    is_token: Tensor | None  # (B, 1, S), broadcast over the queries; None if all positions are tokens
    bias: Tensor | None = None  # added to the scores; set only by `restricted`

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]  # len() would make the number a constant of an exported graph

    def select(self, rows: Tensor) -> Source:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        is_token = None if self.is_token is None else self.is_token.index_select(0, rows)
        return Source(self.prepared.index_select(0, rows), self.values.index_select(0, rows), is_token)

    def append(self, more: Source) -> Source:
        """The record with the positions of another one appended."""
        prepared = torch.cat((self.prepared, more.prepared), dim=1)
        values = torch.cat((self.values, more.values), dim=1)
        if self.is_token is None and more.is_token is None:
            return Source(prepared, values, is_token=None)
        return Source(prepared, values, torch.cat((self.token_mask(), more.token_mask()), dim=2))

    def token_mask(self) -> Tensor:
        """`is_token` as a tensor, even if it is None because all positions are tokens."""
        if self.is_token is not None:
            return self.is_token
        return self.values.new_ones((self.sentences, 1, self.values.shape[1]), dtype=torch.bool)

    def for_query(self, step: int) -> Source:
        """The part for query `step` of a record that `restricted` returned for T queries."""
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

    Only shapes and dtypes are checked, except for empty sentences, for which the mask is read (see `_is_readable`). A
    mask that is True on padding instead of tokens cannot be detected.
    """
    if jit_traced():
        return
    name = type(part).__name__
    if keys.dim() != 3:
        hint = "; for one sentence give keys[None]" if keys.dim() == 2 else ""
        raise ValueError(f"{name} needs keys (sentences, positions, key_size), got {tuple(keys.shape)}{hint}")
    if key_size is not None and keys.shape[2] != key_size:
        raise ValueError(f"{name} has key_size {key_size}, got keys {tuple(keys.shape)}")
    if values is not None and (values.dim() != 3 or values.shape[:2] != keys.shape[:2]):
        raise ValueError(f"{name} needs a value for every key {tuple(keys.shape)}, got values {tuple(values.shape)}")
    width = (keys if values is None else values).shape[2]
    if value_size is not None and width != value_size:
        raise ValueError(f"{name} has value_size {value_size}, got values of size {width}; give it value_size={width}")
    if keys.shape[1] == 0:
        raise ValueError("the source has no positions; keep at least `</s>` in every sentence")
    if is_token is not None:
        check_mask(part, keys, is_token)
        if _is_readable(is_token):
            empty = (~is_token.any(dim=1)).nonzero().flatten().tolist()
            if empty:
                raise ValueError(f"no token in row(s) {empty} of the source; keep at least `</s>` in every sentence")


def check_extension(part: nn.Module, sentences: int, keys: Keys, is_token: IsToken | None, *within: Any) -> None:
    """ValueError in one line if a source cannot be extended, or not by these keys; `within`: its scorers etc."""
    for each in within:
        if not each.can_extend:
            raise ValueError(
                f"{type(each).__name__} cannot append to a source: its state depends on all positions; prepare the "
                f"longer source at once"
            )
    if jit_traced():
        return
    if keys.shape[0] != sentences:
        raise ValueError(
            f"{type(part).__name__} needs keys for the {sentences} sentences of the source, got {tuple(keys.shape)}"
        )
    if is_token is not None:  # a row may be all padding here: the sentence has tokens before
        check_mask(part, keys, is_token)


def check_query(part: nn.Module, query: Query, source: Any, query_size: int | None = None) -> None:
    """ValueError in one line for queries whose shape does not fit; TypeError for a source that is not prepared."""
    name = type(part).__name__
    if isinstance(source, Tensor):
        raise TypeError(
            f"{name} reads what its prepare returned, got a tensor; call source = attention.prepare(keys, "
            f"is_token=mask) once per sentence and then attention(query, source), or attend(attention, query, keys, "
            f"is_token=mask)"
        )
    if jit_traced():
        return
    if query.dim() != 3:
        hint = "; for one query per sentence give query[:, None]" if query.dim() == 2 else ""
        raise ValueError(f"{name} needs queries (sentences, queries, query_size), got {tuple(query.shape)}{hint}")
    if query_size is not None and query.shape[2] != query_size:
        raise ValueError(f"{name} has query_size {query_size}, got queries {tuple(query.shape)}")
    if query.shape[0] != source.sentences:
        raise ValueError(
            f"{name} needs queries for the {source.sentences} sentences of the source, got {tuple(query.shape)}"
        )


def check_bias(name: str, bias: Tensor) -> None:
    """ValueError if a bias is a mask."""
    if not bias.dtype.is_floating_point:
        raise ValueError(f"{name} needs a floating-point bias, got {bias.dtype}; a bool mask is given as may_read")


def restricted(
    part: nn.Module,
    query: Query,
    source: Source,
    history: History | None,
    may_read: Tensor | None,
    causal: bool,
    bias: Tensor | None,
) -> Source:
    """The source for T queries: `is_token` (B, T, S) is True where each may read, `bias` is added to its scores.

    ValueError in one line: a shape or dtype does not fit, causal queries have a history or outnumber the positions, or
    a query may read no position. The latter is detected under the conditions given in `Context.prepare`.
    """
    if may_read is None and bias is None and not causal:
        return source
    shape = query.shape[0], query.shape[1], source.values.shape[1]
    name = type(part).__name__
    if causal and history is not None:
        raise ValueError(
            f"{name}: queries with a history are hypotheses of one step and cannot be causal; give may_read, or a "
            f"source that ends at this step"
        )
    masks = [] if source.is_token is None else [source.is_token]
    if may_read is not None:
        if may_read.dtype != torch.bool:
            raise ValueError(
                f"{name} needs may_read as a bool tensor, True where a query may read, got {may_read.dtype}; give "
                f"mask == 0 for a mask with -inf at excluded positions, ~mask for one with True there, like attn_mask"
            )
        masks.append(_per_query(name, "may_read", may_read, shape))
    if causal:
        masks.append(_causal(name, query, source.values))
    if bias is not None:
        check_bias(name, bias)
        bias = _per_query(name, "bias", bias, shape)
        masks.append(bias > -torch.inf)
    is_open = masks[0]
    for mask in masks[1:]:
        is_open = is_open & mask
    if _is_readable(is_open):
        closed = (~is_open.any(dim=-1)).nonzero()
        if len(closed):
            row, step = closed[0].tolist()
            raise ValueError(
                f"{name}: query {step} of row {row} may read no position, one of {len(closed)} such; leave each "
                f"query at least one token (causal queries on padding have none if padding is on the left)"
            )
    return source._replace(is_token=is_open, bias=bias)


def refuse(part: nn.Module, reason: str, **options: Tensor | bool | None) -> None:
    """ValueError with the reason if one of the options is given to a part that does not support it."""
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
            f"{name}: {queries} causal queries need at least as many positions, since they are the last positions of "
            f"the source, got {positions}"
        )
    ahead = positions - queries
    position, step = (torch.arange(size, device=values.device) for size in (positions, queries))
    return (position <= step[:, None] + ahead)[None]


def jit_traced() -> bool:
    """Whether `torch.jit.trace` is active; sizes are then tensors, and the result of comparing them is a constant."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def is_exported() -> bool:
    """Whether a graph for any length is recorded, in which a branch on the length would be that of the example."""
    is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # not in torch 2.6
    return jit_traced() or is_exporting()


def check_mask(part: nn.Module, keys: Keys, is_token: IsToken) -> None:
    """ValueError in one line for a mask whose dtype or shape does not fit the keys."""
    name = type(part).__name__
    if is_token.dtype != torch.bool:
        raise ValueError(
            f"{name} needs is_token as a bool tensor, True on tokens, got {is_token.dtype}; give mask.bool() "
            f"for a mask with 1 on tokens, mask == 0 for one with 1 or -inf on padding, like key_padding_mask"
        )
    if is_token.shape != keys.shape[:2]:
        hint = "; give a mask per query as may_read" if is_token.dim() == 3 else ""
        raise ValueError(
            f"{name} needs is_token of shape {tuple(keys.shape[:2])} for these keys, got {tuple(is_token.shape)}{hint}"
        )


def _is_readable(mask: Tensor) -> bool:
    """False on an accelerator, where reading would synchronize at every batch, and if the tensor has no contents.

    A tensor has no contents while a graph is traced and within `torch.func` transforms.
    """
    traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return mask.device.type == "cpu" and not traced
