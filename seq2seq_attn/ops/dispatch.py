"""When a fused form may stand in for the computation it was written for.

A fused form stands for exactly one known computation. So every part that it covers must be exactly of the class that it
knows, with the methods that this class had when it was defined, without hooks or parametrisations, and its tensors must
be of a kind, a precision and a device that it serves. Whatever a user wrote, subclassed, hooked or wrapped runs itself.
The functions below answer in words why a fused form is not taken, or with None if it may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_module

from seq2seq_attn import attention

SWITCH = "SEQ2SEQ_ATTN_FAST"  # "0" in the environment: reference implementations only
SERVED = (torch.float32, torch.bfloat16)

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])

_reference_blocks = 0
_methods: dict[type, dict[type, dict[str, object]]] = {}

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def reference() -> Iterator[None]:
    """Within the block every operation takes its reference implementation, in all threads of the process.

    Results stay the same but for rounding, and for which numbers dropout draws.
    """
    global _reference_blocks
    _reference_blocks += 1
    try:
        yield
    finally:
        _reference_blocks -= 1


def is_reference() -> bool:
    """Whether fused forms are switched off, by `reference` or in the environment."""
    return _reference_blocks > 0 or os.environ.get(SWITCH) == "0"


def known(cls: Class) -> Class:
    """Class decorator: fused forms may cover modules of exactly this class, as long as its methods stay as they are."""
    _methods[cls] = {base: _functions(base) for base in cls.__mro__ if base not in nn.Module.__mro__}
    return cls


def changed(module: nn.Module, *, deep: bool = True) -> str | None:
    """Why a module may compute something other than its known class does; None if it may not.

    Looks at the modules within it as well, unless `deep` is false.
    """
    if any(vars(torch_module)[f"_global{name}"] for name in _HOOKS):
        return "there are hooks on all modules"
    parts = module.named_modules() if deep else [("", module)]
    reasons = (_changed(part, f" ({name})" if name else "") for name, part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def known_modules(module: nn.Module) -> list[nn.Module]:
    """The module and those within it, as far as they are unchanged and reached through unchanged ones alone."""
    if changed(module, deep=False) is not None:
        return []
    return [module, *(part for child in module.children() for part in known_modules(child))]


def transparent(wrapper: Function) -> Function:
    """Decorator of a function that replaces a module's method and only looks on, as a profiler's label does.

    Fused forms are taken all the same: what a profiler sees is what runs without it.
    """
    wrapper._transparent = True  # type: ignore[attr-defined]
    return wrapper


def unserved(*tensors: Tensor | None) -> str | None:
    """Why these tensors are left to the reference implementation; None if fused forms serve them."""
    if is_reference():
        return "the reference implementation is asked for"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is being traced"
    if torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0:
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


def _changed(module: nn.Module, place: str) -> str | None:
    cls = type(module)
    methods = _methods.get(cls)
    if methods is None:
        return f"{cls.__name__}{place} is not a class of this package"
    if any(getattr(module, name) for name in _HOOKS):
        return f"{cls.__name__}{place} has hooks"
    own = vars(module)
    if own.get("_compiled_call_impl") is not None:
        return f"{cls.__name__}{place} is compiled"
    for base, functions in methods.items():
        if _functions(base) != functions:
            return f"methods of {base.__name__} were replaced"
        if any(not getattr(own[name], "_transparent", False) for name in functions.keys() & own.keys()):
            return f"{cls.__name__}{place} has a method of its own"
    for parameter in module._parameters.values():
        if parameter is not None and type(parameter) not in (Tensor, nn.Parameter):
            return f"{cls.__name__}{place} has a parameter of {type(parameter).__name__}"
    return None


def _functions(cls: type) -> dict[str, object]:
    """What a class itself defines to be called or computed, by name."""
    kinds: tuple[Any, ...] = (FunctionType, staticmethod, classmethod, property)
    return {name: value for name, value in vars(cls).items() if isinstance(value, kinds)}


for _class in (
    *(nn.Linear, nn.Identity, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Conv1d, nn.ModuleList, nn.Sequential),
    *(nn.GRU, nn.LSTM, nn.RNN),
    *(part for part in vars(attention).values() if isinstance(part, type) and issubclass(part, nn.Module)),
):
    known(_class)
