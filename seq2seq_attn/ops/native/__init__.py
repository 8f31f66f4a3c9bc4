"""C++ kernels for operations that would take torch several passes over memory.

Each kernel has a reference implementation in torch next to its caller. It serves machines without a compiler, other
devices and other dtypes, and tests compare the kernel with it. The kernels are compiled when the first one is needed
(`build.py`), which takes two seconds, and cached. `SEQ2SEQ_ATTN_NATIVE=0` in the environment disables them.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from seq2seq_attn.ops.native.build import library

__all__ = ["has_kernels", "run"]


def has_kernels(tensor: Tensor) -> bool:
    """Whether `run` takes such a tensor: fp32 or bf16, on a CPU, and the kernels are compiled."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.bfloat16)
        and library(tensor.dtype) is not None
    )


def run(kernel: str, dtype: torch.dtype, *arguments: Tensor | int | float | None) -> None:
    """Calls the kernel of this name for numbers of this dtype, with torch's number of threads.

    A tensor is passed as its address, None as a null pointer. Neither number, types and memory layout of the arguments
    nor which of them the kernel writes to is checked: see the declaration in the C++ source.
    """
    getattr(library(dtype), kernel)(*map(_as_c_type, arguments), ctypes.c_int64(torch.get_num_threads()))


def _as_c_type(argument: Tensor | int | float | None) -> object:
    if isinstance(argument, int):
        return ctypes.c_int64(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_void_p(None if argument is None else argument.data_ptr())
