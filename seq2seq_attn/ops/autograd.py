"""What the autograd functions of this folder share: records of tensors, and the refusal of second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward pass that is not differentiable itself: RuntimeError under `create_graph=True`.

    `torch.autograd.function.once_differentiable` raises no error if the incoming gradient is a constant; the second
    derivative then silently lacks the terms that depend on the saved tensors.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "fused operations have first derivatives only; for higher ones, use the model that was given to "
                "seq2seq_attn.ops.fuse, or build it within seq2seq_attn.ops.reference()"
            )
        return backward(ctx, *gradients)

    return checked


class _Place(NamedTuple):
    """The place of a tensor among the arguments of an autograd function, or among its saved tensors."""

    number: int


def apply(function: type[torch.autograd.Function], record: Any) -> Any:
    """The result of an autograd function whose `forward(ctx, record)` takes one record of tensors.

    A record is a NamedTuple of tensors, constants, lists and further records. Autograd sees tensors only among the
    arguments of a function, so they are passed one by one.
    """
    tensors: list[Tensor] = []
    return function.apply(_layout(record, tensors), *tensors)  # type: ignore[no-untyped-call]


def takes_record(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for the forward pass of an autograd function that `apply` calls."""

    @wraps(forward)
    def with_record(ctx: Any, layout: Any, *tensors: Tensor) -> Any:
        ctx.arguments = layout
        return forward(ctx, _record(layout, tensors))

    return with_record


def gradients_of(ctx: Any, record: Any) -> tuple[Tensor | None, ...]:
    """What a backward pass returns: the gradients in a record like that of the forward pass, for its tensors."""
    found: list[Tensor | None] = []
    _collect(ctx.arguments, record, found)
    return None, *found


def save(ctx: Any, record: Any) -> None:
    """Saves the tensors of a record for the backward pass."""
    tensors: list[Tensor] = []
    ctx.saved = _layout(record, tensors)
    ctx.save_for_backward(*tensors)


def saved(ctx: Any) -> Any:
    """The record that `save` was given."""
    return _record(ctx.saved, ctx.saved_tensors)


def _layout(value: Any, tensors: list[Tensor]) -> Any:
    """The record with places instead of its tensors, which are appended to `tensors`."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, (tuple, list)):
        return _like(value, [_layout(each, tensors) for each in value])
    return value


def _record(layout: Any, tensors: Sequence[Tensor]) -> Any:
    """The record with this layout."""
    if isinstance(layout, _Place):
        return tensors[layout.number]
    if isinstance(layout, (tuple, list)):
        return _like(layout, [_record(each, tensors) for each in layout])
    return layout


def _collect(layout: Any, values: Any, found: list[Tensor | None]) -> None:
    if isinstance(layout, _Place):
        found.append(values)
    elif isinstance(layout, (tuple, list)):
        for each, value in zip(layout, values, strict=True):
            _collect(each, value, found)


def _like(sequence: Any, values: list[Any]) -> Any:
    """A list, tuple or NamedTuple of the same class."""
    if isinstance(sequence, list):
        return values
    return type(sequence)(*values) if hasattr(sequence, "_fields") else tuple(values)
