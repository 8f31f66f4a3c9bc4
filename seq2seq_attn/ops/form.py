"""A fused form, and when it may stand for a module.

A form computes what exactly one class computes, faster, from the same parameters. So it stands for a module only if
the module and all that it covers are instances of exactly the classes that the form was written for, with the methods
that these define, without hooks or parametrizations, in fp32 or bf16. What a user wrote, subclassed, hooked or wrapped
always runs as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from seq2seq_attn.models.replace import with_parts

SWITCH = "SEQ2SEQ_ATTN_FAST"  # environment variable; "0" when the package is imported: `fuse` changes nothing

_reference_blocks = int(os.environ.get(SWITCH) == "0")


class Form:
    """A base class of fused forms, which are also subclasses of the class that they stand for."""

    __call__: Callable[..., Any] = nn.Module._call_impl  # without a look whether the module was compiled

    stands_for: ClassVar[type[nn.Module]]
    any_dtype: ClassVar[bool] = False  # True: it also stands for modules in other dtypes than fp32 and bf16
    covers_parts: ClassVar[bool] = False  # True: it has the parts of the module as they are, and does not call them
    is_reported: ClassVar[bool] = False  # True: `unfused` says where there is none

    @classmethod
    def why_not(cls, module: Any) -> str | None:
        """Why the form cannot stand for this module, which is one of its class that nobody changed; None if it can."""
        return None

    @classmethod
    def of(cls, module: nn.Module, parts: dict[str, nn.Module | None]) -> nn.Module:
        """The form of a module; it shares all attributes with it, except that its submodules are `parts`."""
        form: Any = with_parts(module, parts, cast(Any, cls))
        form.pack()
        return form  # type: ignore[no-any-return]

    def pack(self) -> None:
        """Computes what depends on the parameters alone, in a form for constant parameters."""


@contextmanager
def reference() -> Iterator[None]:
    """Context manager in which `fuse` returns the models that it is given, in all threads of the process.

    Results differ by rounding only, except that dropout draws other masks.
    """
    global _reference_blocks
    _reference_blocks += 1
    try:
        yield
    finally:
        _reference_blocks -= 1


def is_reference() -> bool:
    """Whether `fuse` changes nothing, by `reference` or in the environment."""
    return _reference_blocks > 0


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TORCH = (
    *(nn.Linear, nn.Identity, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.Conv1d, nn.ModuleList, nn.Sequential),
    *(nn.GRU, nn.LSTM, nn.RNN),
)
_OURS = ("seq2seq_attn.attention.", "seq2seq_attn.models.", "seq2seq_attn.ops.")
_NOT_CHECKED = nn.Module.__mro__
_METHODS: tuple[Any, ...] = (FunctionType, staticmethod, classmethod, property)


def hooks_on_all_modules() -> bool:
    """Whether torch calls hooks for every module of the process."""
    return any(vars(torch_module)[f"_global{name}"] for name in _HOOKS)


def changed(module: nn.Module, *, deep: bool = True) -> str | None:
    """Why a module may not compute what the class of this package or of torch defines; None if it does.

    Checks its submodules as well, unless `deep` is false.
    """
    parts = module.named_modules() if deep else [("", module)]
    reasons = (_changed(part, f" ({name})" if name else "") for name, part in parts)
    return next((reason for reason in reasons if reason is not None), None)


def _changed(module: nn.Module, place: str) -> str | None:
    cls, own = type(module), vars(module)
    if cls not in _TORCH and not cls.__module__.startswith(_OURS):
        return f"{cls.__name__}{place} is not a class of this package"
    if any(own[name] for name in _HOOKS):
        return f"{cls.__name__}{place} has hooks"
    if own.get("_compiled_call_impl") is not None:
        return f"{cls.__name__}{place} is compiled"
    for base in cls.__mro__:
        if base in _NOT_CHECKED or issubclass(base, Form):
            continue
        for name, method in vars(base).items():
            if isinstance(method, _METHODS):
                if not _is_of(base, method):
                    return f"a method of {base.__name__} was replaced"
                if name in own:
                    return f"{cls.__name__}{place} has a method replaced on the instance"
    for parameter in module._parameters.values():
        if parameter is not None and type(parameter) not in (Tensor, nn.Parameter):
            return f"{cls.__name__}{place} has a parameter of type {type(parameter).__name__}"
    return None


def _is_of(cls: type, method: Any) -> bool:
    """Whether the code of a method is in the file that defines the class."""
    functions = (method.fget, method.fset, method.fdel) if isinstance(method, property) else (method,)
    codes = [getattr(getattr(each, "__func__", each), "__code__", None) for each in functions if each is not None]
    return all(code is not None and code.co_filename == sys.modules[cls.__module__].__file__ for code in codes)


def unchanged_modules(module: nn.Module) -> list[nn.Module]:
    """The module and its submodules, except those that somebody changed or wrote, and everything below these."""
    if changed(module, deep=False) is not None:
        return []
    return [module, *(part for child in module.children() for part in unchanged_modules(child))]


def why_not_numbers(module: nn.Module) -> str | None:
    """Why fused forms do not support the numbers of a module; None if they do."""
    for parameter in module.parameters():
        if parameter.dtype not in (torch.float32, torch.bfloat16):
            return f"the dtype is {str(parameter.dtype).removeprefix('torch.')}"
        if parameter.is_meta:
            return "the parameters are on the meta device"
    return None
