"""The signatures of the kernels, read from their declarations in C++: the one place where they are written.

    extern "C" void dropout(Index numbers, const Number *x, ..., double scale, Index threads) {

`Number` is the dtype that the library is compiled for. The last parameter is the number of threads. A parameter
`x_stride` says that the rows of the tensor `x` may be apart; all other tensors are contiguous.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

SOURCES = Path(__file__).parent

_DECLARATION = re.compile(r'^extern "C" void (\w+)\(([^)]*)\)', re.MULTILINE)
_POINTERS = {"float": torch.float32, "bool": torch.bool, "Index": torch.int64}
_VALUES: dict[str, type[int] | type[float]] = {"Index": int, "double": float}


class Parameter(NamedTuple):
    """What a kernel takes as one argument."""

    kind: Any  # the dtype of a tensor, or int or float
    is_dense: bool  # whether a tensor must be contiguous


class Kernel(NamedTuple):
    """A function of a compiled library, and its parameters by name, without the number of threads."""

    call: Callable[..., None]
    parameters: dict[str, Parameter]


@cache
def declarations() -> dict[str, list[tuple[str, str, bool]]]:
    """Of every kernel: name, type and whether it is a pointer, of each parameter."""
    found = {}
    for path in sorted(SOURCES.glob("*.cpp")):
        for name, parameters in _DECLARATION.findall(path.read_text(encoding="utf-8")):
            found[name] = [_parsed(each) for each in parameters.split(",")]
    return found


def _parsed(parameter: str) -> tuple[str, str, bool]:
    *kind, name = parameter.replace("*", " * ").split()
    return name, next(word for word in kind if word not in ("const", "*")), "*" in kind


def declared(library: ctypes.CDLL, name: str, dtype: torch.dtype) -> Kernel:
    """The kernel of a library that is compiled for numbers of this dtype."""
    *parameters, _threads = declarations()[name]
    names = {key for key, _, _ in parameters}
    kinds = {
        key: Parameter(_POINTERS.get(kind, dtype) if is_pointer else _VALUES[kind], f"{key}_stride" not in names)
        for key, kind, is_pointer in parameters
    }
    call = getattr(library, name)
    by_type = {int: ctypes.c_int64, float: ctypes.c_double}
    call.argtypes = [*(by_type.get(each.kind, ctypes.c_void_p) for each in kinds.values()), ctypes.c_int64]
    call.restype = None
    return Kernel(call, kinds)
