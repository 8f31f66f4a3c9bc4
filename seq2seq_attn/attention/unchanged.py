"""Whether a module computes exactly what its class defines, so that a fused form may replace it.

A fused form implements exactly one computation. Every module that it covers must be an instance of exactly the class it
was written for, with the methods that this class was defined with, without hooks or parametrizations. Modules that a
user wrote, subclassed, hooked or wrapped always run as they are. `Attention` checks this before it calls
`scaled_dot_product_attention`, and so does everything in ops/.
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

SWITCH = "SEQ2SEQ_ATTN_FAST"  # environment variable; "0": reference implementations only

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])

_reference_blocks = 0
_methods: dict[type, dict[type, dict[str, object]]] = {}

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def reference() -> Iterator[None]:
    """Context manager in which every operation uses its reference implementation, in all threads of the process.

    Results differ by rounding only, except that dropout draws other masks.
    """
    global _reference_blocks
    _reference_blocks += 1
    try:
        yield
    finally:
        _reference_blocks -= 1


def is_reference() -> bool:
    """Whether fused forms are disabled, by `reference` or in the environment."""
    return _reference_blocks > 0 or os.environ.get(SWITCH) == "0"


def is_transformed() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation is active."""
    return torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0


def fusible(cls: Class) -> Class:
    """Class decorator: fused forms may cover modules of exactly this class as long as its methods are not replaced."""
    _methods[cls] = {base: _functions(base) for base in cls.__mro__ if base not in nn.Module.__mro__}
    return cls


def changed(module: nn.Module, *, deep: bool = True) -> str | None:
    """Why a module may not compute what its `fusible` class defines; None if it does.

    Checks its submodules as well, unless `deep` is false.
    """
    if any(vars(torch_module)[f"_global{name}"] for name in _HOOKS):
        return "there are hooks on all modules"
    parts = module.named_modules() if deep else [("", module)]
    reasons = (_changed(part, f" ({name})" if name else "") for name, part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def transparent(wrapper: Function) -> Function:
    """Decorator for a function that replaces a module's method without changing its result, e.g. to label a profile.

    It does not disable fused forms, so that the code that is profiled is the code that runs otherwise.
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
            return f"a method of {base.__name__} was replaced"
        if any(not getattr(own[name], "_transparent", False) for name in functions.keys() & own.keys()):
            return f"{cls.__name__}{place} has a method replaced on the instance"
    for parameter in module._parameters.values():
        if parameter is not None and type(parameter) not in (Tensor, nn.Parameter):
            return f"{cls.__name__}{place} has a parameter of type {type(parameter).__name__}"
    return None


def _functions(cls: type) -> dict[str, object]:
    """The methods and properties that a class itself defines, by name."""
    kinds: tuple[Any, ...] = (FunctionType, staticmethod, classmethod, property)
    return {name: value for name, value in vars(cls).items() if isinstance(value, kinds)}
