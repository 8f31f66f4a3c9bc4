"""When a fused form may replace the computation it was written for.

A fused form implements exactly one computation. Every module that it covers must therefore be an instance of exactly
the class it was written for, with the methods that this class was defined with, without hooks or parametrizations; its
tensors must have a type, dtype and device that the fused form supports. Modules that a user wrote, subclassed, hooked
or wrapped always run as they are. The functions below return the reason why a fused form is not used, or None if it
may be used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.unchanged import changed, fusible, is_reference, is_transformed, reference, transparent

__all__ = [
    "SUPPORTED",
    "changed",
    "first_derivative_only",
    "fusible",
    "fusible_modules",
    "is_reference",
    "is_synchronous",
    "reasons",
    "reference",
    "transparent",
    "unsupported",
]

SUPPORTED = (torch.float32, torch.bfloat16)


def fusible_modules(module: nn.Module) -> list[nn.Module]:
    """The module and its submodules, except modified ones and everything below a modified one."""
    if changed(module, deep=False) is not None:
        return []
    return [module, *(part for child in module.children() for part in fusible_modules(child))]


def unsupported(*tensors: Tensor | None) -> str | None:
    """Why fused forms do not support these tensors; None if they do."""
    if is_reference():
        return "reference implementations are requested"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is being traced"
    if is_transformed():
        return "torch.func or forward-mode differentiation is active"
    if torch._C._len_torch_dispatch_stack():
        return "a dispatch mode is active"
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in (Tensor, nn.Parameter):
            return f"a tensor is a {type(tensor).__name__}"
        if tensor.dtype not in SUPPORTED:
            return f"the dtype is {str(tensor.dtype).removeprefix('torch.')}"
        if tensor.is_meta:
            return "the tensors are on the meta device"
    return None


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward pass that is not differentiable itself: RuntimeError under `create_graph=True`.

    `torch.autograd.function.once_differentiable` raises no error if the incoming gradient is a constant; the second
    derivative then silently lacks the terms that depend on the saved tensors.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "fused operations have first derivatives only; for higher ones, compute forward and backward within "
                "seq2seq_attn.ops.reference()"
            )
        return backward(ctx, *gradients)

    return checked


def is_synchronous(tensor: Tensor) -> bool:
    """Whether values of the tensor can be read without synchronizing with an accelerator."""
    return tensor.device.type == "cpu"


def reasons(model: nn.Module) -> dict[str, str]:
    """The modules of a model that have a fused form and do not use it, by name, each with the reason."""
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
    fusible(_class)
