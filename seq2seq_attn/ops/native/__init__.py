"""Kernels for operations that would take torch several passes over memory, or many launches of small operations.

Those for the CPU are in C++; those for a GPU, the steps of a recurrent decoder alone, in Triton (`gpu.py`). Each has an
implementation in torch next to its caller, or is used by a form that falls back to the class it stands for: for
machines without a compiler or Triton, other devices and other dtypes. Kernels are compiled when they are first needed,
those in C++ by `build.py`, and cached. `SEQ2SEQ_ATTN_NATIVE=0` in the environment disables them.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.ops.native.build import SWITCH, library, warn_of_no_kernels

__all__ = ["LONGEST_SOURCE_ON_GPU", "gpu_kernels", "has_kernels", "run"]

SOURCES = Path(__file__).parent
LONGEST_SOURCE_ON_GPU = 1024  # its kernels hold the scores of a sentence in registers


def has_kernels(tensor: Tensor) -> bool:
    """Whether `run` takes such a tensor and what autocast makes of it: fp32 or bf16, on a CPU with kernels."""
    if tensor.device.type != "cpu":
        return False
    types = {tensor.dtype, torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else tensor.dtype}
    return all(dtype in (torch.float32, torch.bfloat16) and library(dtype) is not None for dtype in types)


def run(name: str, dtype: torch.dtype, **arguments: Tensor | float | None) -> None:
    """Calls a kernel for numbers of this dtype, with torch's number of threads.

    The arguments are those of its declaration in C++, by name. A tensor is passed as its address, None as a null
    pointer. Which of them may be null, and their sizes, is the caller's part.

    Raises:
        TypeError: An argument is missing or is not declared, or a tensor is not on the CPU, not of the declared dtype
            or, where no stride is declared, not contiguous.
        RuntimeError: A graph is being traced, or a transform of torch.func is active: a kernel would read no values.
    """
    if torch._C._get_tracing_state() is not None or torch._C._functorch.maybe_current_level() is not None:
        raise RuntimeError(
            "fused operations cannot be traced or transformed; use the model that was given to seq2seq_attn.ops.fuse, "
            "or build it within seq2seq_attn.ops.reference()"
        )
    kernel = _kernel(name, dtype)
    if arguments.keys() != kernel.parameters.keys():
        wrong = ", ".join(sorted(arguments.keys() ^ kernel.parameters.keys()))
        raise TypeError(f"the kernel {name} is declared with other arguments: {wrong}")
    values: list[float | None] = []
    for key, (kind, is_dense) in kernel.parameters.items():
        value = arguments[key]
        if isinstance(value, Tensor):
            if value.dtype != kind or not value.is_cpu or (is_dense and not value.is_contiguous()):
                raise TypeError(f"{name}: {key} must be a {kind} on the CPU, got {_described(value)}")
            if type(value) not in (Tensor, nn.Parameter):
                raise TypeError(f"{name}: {key} must be a plain tensor, got {_described(value)}")
            values.append(value.data_ptr())
        elif isinstance(value, kind) if kind in (int, float) else value is None:
            values.append(value)
        else:
            raise TypeError(f"{name}: {key} must be a {kind}, got {value!r}")
    kernel.call(*values, torch.get_num_threads())


class Parameter(NamedTuple):
    """What a kernel takes as one argument."""

    kind: Any  # the dtype of a tensor, or int or float
    is_dense: bool  # whether a tensor must be contiguous


class Kernel(NamedTuple):
    """A function of a compiled library, and its parameters by name, without the number of threads."""

    call: Callable[..., None]
    parameters: dict[str, Parameter]


_DECLARATION = re.compile(r'^extern "C" void (\w+)\(([^)]*)\)', re.MULTILINE)
_POINTERS = {"float": torch.float32, "bool": torch.bool, "Index": torch.int64}
_VALUES: dict[str, type[int] | type[float]] = {"Index": int, "double": float}


@cache
def declarations() -> dict[str, list[tuple[str, str, bool]]]:
    """Name, type and whether it is a pointer, of each parameter of every kernel; C++ is where they are written.

        extern "C" void dropout(Index numbers, const Number *x, ..., double scale, Index threads) {

    `Number` is the dtype that the library is compiled for. The last parameter is the number of threads. A parameter
    `x_stride` says that the rows of the tensor `x` may be apart; all other tensors are contiguous.
    """
    found = {}
    for path in sorted(SOURCES.glob("*.cpp")):
        for name, parameters in _DECLARATION.findall(path.read_text(encoding="utf-8")):
            found[name] = [_parsed(each) for each in parameters.split(",")]
    return found


def _parsed(parameter: str) -> tuple[str, str, bool]:
    *kind, name = parameter.replace("*", " * ").split()
    return name, next(word for word in kind if word not in ("const", "*")), "*" in kind


@cache
def _kernel(name: str, dtype: torch.dtype) -> Kernel:
    compiled = library(dtype)
    if compiled is None:
        raise RuntimeError(f"there is no kernel {name}: see `has_kernels`")
    *parameters, _threads = declarations()[name]
    names = {key for key, _, _ in parameters}
    kinds = {
        key: Parameter(_POINTERS.get(kind, dtype) if is_pointer else _VALUES[kind], f"{key}_stride" not in names)
        for key, kind, is_pointer in parameters
    }
    call = getattr(compiled, name)
    by_type = {int: ctypes.c_int64, float: ctypes.c_double}
    call.argtypes = [*(by_type.get(each.kind, ctypes.c_void_p) for each in kinds.values()), ctypes.c_int64]
    call.restype = None
    return Kernel(call, kinds)


def _described(tensor: Tensor) -> str:
    layout = "contiguous" if tensor.is_contiguous() else "not contiguous"
    return f"a {type(tensor).__name__} of {tensor.dtype} on {tensor.device}, {layout}"


def gpu_kernels(tensor: Tensor) -> ModuleType | None:
    """The kernels of `gpu.py` if they take such a tensor, fp32 or bf16 on the current GPU, and can be compiled."""
    if tensor.device.type != "cuda" or tensor.dtype not in (torch.float32, torch.bfloat16):
        return None
    return _compiled_for_gpu() if tensor.device.index == torch.cuda.current_device() else None


@cache
def _compiled_for_gpu() -> ModuleType | None:
    if os.environ.get(SWITCH) == "0" or find_spec("triton") is None:
        return None
    try:
        from seq2seq_attn.ops.native import gpu

        row = torch.zeros(1, 3, device="cuda")
        gpu.gru_forward(row, row, row[:, :1], row[:, :2].clone(), row[:, :1].clone(), row[:, :1].clone())
    except Exception as error:  # Triton, its compiler and the driver raise errors of many classes
        warn_of_no_kernels("no compiled kernels on the GPU", error, stacklevel=4)
        return None
    return gpu
