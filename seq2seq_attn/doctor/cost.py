"""The cost of a scorer: parameters, and the FLOPs and bytes of its operations, counted during a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from seq2seq_attn.attention import Scorer


class Cost(NamedTuple):
    flops: int
    bytes: int  # read and written


class ScorerCost(NamedTuple):
    parameters: int
    prepare: Cost  # per sentence
    step: Cost  # per target word: the scores, and the next history if the scorer has one


@torch.no_grad()
def measure_cost(scorer: Scorer, positions: int = 50) -> ScorerCost:
    """The cost of preparing a sentence of S `positions`, and of a decoding step with one query (1, 1, query_size).

    FLOPs: products by the formulas of torch.utils.flop_counter (2 m n k for matrices); reductions, one per element of
    their input; copies, none; other operations, one per element of a floating-point result. Bytes: everything that an
    operation reads and writes, without fusion; views are free. Softmax and the weighted sum, which are the same for
    all scorers, do not count.
    """
    like = next(scorer.parameters(), torch.empty(0))
    query, keys = like.new_zeros(1, 1, scorer.query_size), like.new_zeros(1, positions, scorer.key_size)
    with _Counter() as preparing:
        prepared = scorer.prepare(keys)
    history = scorer.start(prepared)
    with _Counter() as scoring:
        scores = scorer.after(history, query, prepared)
    weights = scores.softmax(dim=-1)
    with _Counter() as advancing:
        scorer.advance(history, query, prepared, weights)
    return ScorerCost(
        parameters=sum(parameter.numel() for parameter in scorer.parameters()),
        prepare=Cost(preparing.flops, preparing.bytes),
        step=Cost(scoring.flops + advancing.flops, scoring.bytes + advancing.bytes),
    )


_aten = torch.ops.aten

# Products for which torch has no formula. As in its formulas, a multiplication and an addition are two FLOPs.
_PRODUCTS: Mapping[Any, Callable[..., int]] = {
    _aten.mv: lambda matrix, vector: 2 * matrix.numel(),
    _aten.dot: lambda one, other: 2 * one.numel(),
}
_REDUCTIONS = {_aten.sum, _aten.mean, _aten.amax, _aten.amin, _aten.linalg_vector_norm, _aten.logsumexp}
_MOVES = {
    _aten.cat, _aten.stack, _aten.clone, _aten.copy_, _aten._to_copy, _aten.constant_pad_nd, _aten.index,
    _aten.index_select, _aten.gather, _aten.embedding, _aten.roll, _aten.flip, _aten.where, _aten.masked_fill,
}  # fmt: skip


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the FLOPs and bytes of the operations that run within this context."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self.bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler, which takes seconds

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        read, written = _tensors((args, kwargs)), _tensors(result)
        if not _is_view(function, read, written):
            self.flops += _flops(function, args, kwargs, result)
            self.bytes += sum(map(_bytes, written if _only_fills(function) else [*read, *written]))
        return result


def _flops(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    operation = function.overloadpacket
    if operation in flop_registry:
        return int(flop_registry[operation](*args, **kwargs, out_val=result))
    if operation in _PRODUCTS:
        return _PRODUCTS[operation](*args)
    if operation in _MOVES or _only_fills(function):
        return 0
    counted = _tensors(args)[:1] if operation in _REDUCTIONS else _tensors(result)
    return sum(tensor.numel() for tensor in counted if tensor.is_floating_point())


def _is_view(function: Any, read: Sequence[Tensor], written: Sequence[Tensor]) -> bool:
    """Whether the result shares memory with an argument, and nothing was written."""
    if function._schema.is_mutable:
        return False
    storages = {tensor.untyped_storage()._cdata for tensor in read}
    return any(tensor.untyped_storage()._cdata in storages for tensor in written)


def _only_fills(function: Any) -> bool:
    """Whether the operation, such as zeros_like or new_zeros, uses only the size of its argument."""
    name: str = function.overloadpacket.__name__
    return name.startswith("new_") or name.endswith("_like")


def _bytes(tensor: Tensor) -> int:
    """Bytes of a tensor in memory, where an expanded dimension counts once."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0)
    return math.prod(sizes) * tensor.element_size()


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
