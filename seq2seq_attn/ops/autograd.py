"""Operations with a backward pass of their own, and the refusal of second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


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


class Saved(Protocol):
    """What the backward pass needs of an operation: a NamedTuple of tensors, constants, lists and further records."""

    def backward(self, *gradients: Tensor | None) -> Any:
        """The operation with gradients instead of its tensors, given those of its outputs; None: there is none."""


class Operation(Protocol):
    """A NamedTuple of what an operation computes its outputs from: tensors, constants, lists and further records."""

    def forward(self) -> tuple[Any, Saved]:
        """The outputs, and what the backward pass needs."""


def apply(operation: Operation) -> Any:
    """The outputs of an operation, as one autograd node."""
    if not torch.is_grad_enabled():  # a step of a search is short: the node would take a good part of its time
        return operation.forward()[0]
    leaves, layout = tree_flatten(operation)  # autograd sees tensors only among the arguments of a function
    return _Node.apply(layout, *leaves)  # type: ignore[no-untyped-call]


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layout: Any, *leaves: Any) -> Any:
        ctx.set_materialize_grads(False)
        outputs, saved = tree_unflatten(leaves, layout).forward()
        kept, ctx.layout = tree_flatten(saved)
        ctx.constants = [None if isinstance(each, Tensor) else each for each in kept]
        ctx.save_for_backward(*(each if isinstance(each, Tensor) else None for each in kept))
        return outputs

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(each is None for each in gradients):
            return (None,) * len(ctx.needs_input_grad)
        pairs = zip(ctx.saved_tensors, ctx.constants, strict=True)
        saved = tree_unflatten([constant if tensor is None else tensor for tensor, constant in pairs], ctx.layout)
        found = tree_leaves(saved.backward(*gradients))
        return None, *(each if isinstance(each, Tensor) else None for each in found)
