"""Kernels for operations that would take torch several passes over memory, or many launches of small operations.

Those for the CPU are in C++; those for a GPU, the steps of a recurrent decoder alone, in Triton (`gpu.py`).
Each kernel has a reference implementation in torch next to its caller. It serves machines without a compiler or Triton,
other devices and other dtypes, and tests compare the kernel with it. Kernels are compiled when they are first needed,
those in C++ by `build.py` in two seconds, and cached. `SEQ2SEQ_ATTN_NATIVE=0` in the environment disables them.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from seq2seq_attn.ops.native.build import SWITCH, library, warn_of_no_kernels

__all__ = ["LONGEST_SOURCE_ON_GPU", "gpu_kernels", "has_kernels", "run"]

LONGEST_SOURCE_ON_GPU = 1024  # its kernels hold the scores of a sentence in registers


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
