"""Whether a module is exactly what its class says, so that another computation of the same may stand in for it.

Every part that a fused form covers must be exactly of the class that the form knows, with the methods that this class
had when it was defined, without hooks or parametrisations. Whatever a user wrote, subclassed, hooked or wrapped runs
itself. `Attention` asks before it calls `scaled_dot_product_attention`, and everything in ops/ does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_module

SWITCH = "SEQ2SEQ_ATTN_FAST"  # "0" in the environment: reference implementations only

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


def is_transformed() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation is at work: not for what is fused."""
    return torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0


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


def transparent(wrapper: Function) -> Function:
    """Decorator of a function that replaces a module's method and only looks on, as a profiler's label does.

    Fused forms are taken all the same: what a profiler sees is what runs without it.
    """
    wrapper._transparent = True  # type: ignore[attr-defined]
    return wrapper


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
