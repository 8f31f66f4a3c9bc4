"""All parts that attention can be made of, each with what there is to know of it, and what a scorer costs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from seq2seq_attn.attention import (
    Normaliser,
    Scorer,
    Window,
    normaliser_classes,
    own_options,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.doctor.subject import Kind

QUERY_SIZE, KEY_SIZE, POSITIONS = 512, 1024, 50


class Cost(NamedTuple):
    flops: int
    bytes: int  # read and written


class ScorerCost(NamedTuple):
    parameters: int
    prepare: Cost  # once a sentence
    step: Cost  # once a target word: the scores, and the next history of a scorer that has one


class Entry(NamedTuple):
    kind: Kind
    name: str  # in a configuration
    equation: str
    source: str  # paper and equation number
    options: dict[str, Any]  # and their defaults
    notes: tuple[str, ...]
    parameters: int | None  # at the sizes asked for; None: it cannot be made at these
    prepare: Cost | None  # of a scorer, for one sentence; None: it could not be run
    step: Cost | None  # of a scorer, for one target word
    error: str | None  # why not

    @property
    def settings(self) -> list[str]:
        """`name=default` of every option, as a configuration writes it."""
        return [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in self.options.items()
        ]


def catalogue(query_size: int = QUERY_SIZE, key_size: int = KEY_SIZE, positions: int = POSITIONS) -> list[Entry]:
    """Scorers, normalisers and windows at these sizes, and what the scorers cost on a source of that length."""
    return [
        *(_scorer(kind, query_size, key_size, positions) for kind in scorer_classes().values()),
        *(_normaliser(kind) for kind in normaliser_classes().values()),
        *(_window(kind, query_size) for kind in window_classes().values()),
    ]


def _scorer(scorer: type[Scorer], query_size: int, key_size: int, positions: int) -> Entry:
    entry = _entry("scorer", scorer)._replace(notes=tuple(_notes_on_scorer(scorer)))
    try:
        made = scorer(query_size, key_size)
    except (TypeError, ValueError) as error:
        return entry._replace(error=str(error))
    entry = entry._replace(parameters=sum(parameter.numel() for parameter in made.parameters()))
    try:
        cost = cost_of(made, positions)
    except Exception as error:  # whatever the code of others raises
        return entry._replace(error=f"cannot be run: {type(error).__name__}: {' '.join(str(error).split())}")
    return entry._replace(prepare=cost.prepare, step=cost.step)


def _notes_on_scorer(scorer: type[Scorer]) -> Iterator[str]:
    if scorer.needs_equal_sizes:
        yield "query and key of one size"
    if scorer.needs_history:
        yield "depends on earlier steps"


def _normaliser(normaliser: type[Normaliser]) -> Entry:
    notes = [] if normaliser.sums_to_one else ["rows may sum to less or more than 1"]
    if normaliser.needs_history:
        notes.append("depends on earlier steps")
    return _entry("normaliser", normaliser)._replace(parameters=0, notes=tuple(notes))


def _window(window: type[Window], query_size: int) -> Entry:
    made = window(query_size)
    return _entry("window", window)._replace(
        parameters=sum(parameter.numel() for parameter in made.parameters()),
        notes=("moves with the steps",) if window.needs_steps else (),
    )


def _entry(kind: Kind, part: type[Scorer] | type[Normaliser] | type[Window]) -> Entry:
    """What the class itself says."""
    defaults = {name: parameter.default for name, parameter in own_options(part).items()}
    return Entry(
        kind=kind,
        name=config_name(part),
        equation=part.equation,
        source=part.source,
        options={name: _plain(value) for name, value in defaults.items() if value is not Parameter.empty},
        notes=(),
        parameters=None,
        prepare=None,
        step=None,
        error=None,
    )


def _plain(value: Any) -> Any:
    """A default as JSON can say it: a class by its name in a configuration."""
    if isinstance(value, type):
        return config_name(value)
    return value if value is None or isinstance(value, (bool, int, float, list, tuple)) else str(value)


@torch.no_grad()
def cost_of(scorer: Scorer, positions: int = 50) -> ScorerCost:
    """The cost of a sentence of S `positions`, and of a decoding step: a query (1, 1, query_size) on its keys.

    FLOPs: products by the formulas of torch.utils.flop_counter (2 m n k for matrices), reductions one an element of
    what is reduced, copies none, all else one an element of a floating point result. Bytes: all that an operation
    reads and writes, unless it is a view; nothing is taken to be fused. What attention does with the scores of any
    scorer, softmax and the sum of the values, is not counted.
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

# Products that torch has no formula for; as in its formulas, a product and the sum that it goes into are two FLOPs.
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
    """Counts the operations that run inside of it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self.bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch loads its compiler, which takes seconds

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
    """The result lies where an argument lies, and nothing was written there."""
    if function._schema.is_mutable:
        return False
    places = {tensor.untyped_storage()._cdata for tensor in read}
    return any(tensor.untyped_storage()._cdata in places for tensor in written)


def _only_fills(function: Any) -> bool:
    """Such as zeros_like and new_zeros: of its argument it takes the size, and reads no number."""
    name: str = function.overloadpacket.__name__
    return name.startswith("new_") or name.endswith("_like")


def _bytes(tensor: Tensor) -> int:
    """What of a tensor lies in memory: a dimension that was expanded is there once."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0)
    return math.prod(sizes) * tensor.element_size()


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
