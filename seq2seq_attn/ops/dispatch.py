"""When a fused form may replace the computation it was written for.

A fused form implements exactly one computation. Every module that it covers must therefore be an instance of exactly
the class it was written for, with the methods that this class was defined with, without hooks or parametrisations; its
tensors must have a type, dtype and device that the fused form supports. Modules that a user wrote, subclassed, hooked
or wrapped always run as they are. The functions below return the reason why a fused form is not used, or None if it
may be used.
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

SWITCH = "SEQ2SEQ_ATTN_FAST"  # environment variable; "0": reference implementations only
SUPPORTED = (torch.float32, torch.bfloat16)

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


def fusible(cls: Class) -> Class:
    """Class decorator: fused forms may cover modules of exactly this class as long as its methods are not replaced."""
    _methods[cls] = {base: _functions(base) for base in cls.__mro__ if base not in nn.Module.__mro__}
    return cls


def changed(module: nn.Module, *, deep: bool = True) -> str | None:
    """Why a module may compute something else than its `fusible` class defines; None if it cannot.

    Checks its submodules as well, unless `deep` is false.
    """
    if any(vars(torch_module)[f"_global{name}"] for name in _HOOKS):
        return "there are hooks on all modules"
    parts = module.named_modules() if deep else [("", module)]
    reasons = (_changed(part, f" ({name})" if name else "") for name, part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def fusible_modules(module: nn.Module) -> list[nn.Module]:
    """The module and its submodules, except modified ones and everything below a modified one."""
    if changed(module, deep=False) is not None:
        return []
    return [module, *(part for child in module.children() for part in fusible_modules(child))]


def transparent(wrapper: Function) -> Function:
    """Decorator for a function that replaces a module's method without changing its result, e.g. to label a profile.

    It does not disable fused forms, so that the code that is profiled is the code that runs otherwise.
    """
    wrapper._transparent = True  # type: ignore[attr-defined]
    return wrapper


def unsupported(*tensors: Tensor | None) -> str | None:
    """Why fused forms do not support these tensors; None if they do."""
    if is_reference():
        return "reference implementations are requested"
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "a graph is being traced"
    if torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0:
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
    """Whether values of the tensor can be read without synchronising with an accelerator."""
    return tensor.device.type == "cpu"


def reasons(model: nn.Module) -> dict[str, str]:
    """The modules of a model that have a fused form and do not use it, by name, each with the reason."""
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


for _class in (
    *(nn.Linear, nn.Identity, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Conv1d, nn.ModuleList, nn.Sequential),
    *(nn.GRU, nn.LSTM, nn.RNN),
    *(part for part in vars(attention).values() if isinstance(part, type) and issubclass(part, nn.Module)),
):
    fusible(_class)
