"""When a fused form may stand in for the computation it was written for.

A fused form stands for exactly one known computation. So every part that it covers must be exactly of the class that it
knows, with the methods that this class had when it was defined, without hooks or parametrisations, and its tensors must
be of a kind, a precision and a device that it serves. Whatever a user wrote, subclassed, hooked or wrapped runs itself.
The functions below answer in words why a fused form is not taken, or with None if it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.unchanged import changed, is_reference, is_transformed, known, reference, transparent

__all__ = [
    "SERVED",
    "changed",
    "first_derivative_only",
    "is_reference",
    "is_synchronous",
    "known",
    "known_modules",
    "reasons",
    "reference",
    "transparent",
    "unserved",
]

SERVED = (torch.float32, torch.bfloat16)


def known_modules(module: nn.Module) -> list[nn.Module]:
    """The module and those within it, as far as they are unchanged and reached through unchanged ones alone."""
    if changed(module, deep=False) is not None:
        return []
    return [module, *(part for child in module.children() for part in known_modules(child))]


def unserved(*tensors: Tensor | None) -> str | None:
    """Why these tensors are left to the reference implementation; None if fused forms serve them."""
    if is_reference():
        return "the reference implementation is asked for"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is being traced"
    if is_transformed():
        return "torch.func or forward-mode differentiation is at work"
    if torch._C._len_torch_dispatch_stack():
        return "a dispatch mode is at work"
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in (Tensor, nn.Parameter):
            return f"the tensors are of {type(tensor).__name__}"
        if tensor.dtype not in SERVED:
            return f"the precision is {str(tensor.dtype).removeprefix('torch.')}"
        if tensor.is_meta:
            return "the tensors hold no numbers"
    return None


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a backward pass that is not differentiable itself: RuntimeError under `create_graph=True`.

    (`torch.autograd.function.once_differentiable` is silent where the incoming gradient is a constant, and the second
    derivative then lacks what went through the saved tensors.)
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "fused operations have first derivatives only; for second ones compute the whole within "
                "seq2seq_attn.ops.reference()"
            )
        return backward(ctx, *gradients)

    return checked


def is_synchronous(tensor: Tensor) -> bool:
    """Whether a value of the tensor can be read without waiting for an accelerator."""
    return tensor.device.type == "cpu"


def reasons(model: nn.Module) -> dict[str, str]:
    """By its name, each part of a model that has a fused form and does not take it, and why."""
    found = {}
    for name, part in model.named_modules():
        why_not = getattr(part, "why_not", None)
        if why_not is not None and (reason := why_not()) is not None:
            found[name] = reason
    return found


for _class in (
    *(nn.Linear, nn.Identity, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Conv1d, nn.ModuleList, nn.Sequential),
    *(nn.GRU, nn.LSTM, nn.RNN),
):
    known(_class)
