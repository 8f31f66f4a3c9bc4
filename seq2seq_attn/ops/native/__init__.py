"""Kernels in C++ for what torch does in too many passes over memory, where the machine has a compiler.

Each has a plain statement in torch beside its caller, which is computed on every other machine, device and precision,
and to which tests hold it. They are compiled when the first is asked for (`build.py`), two seconds once a machine, and
kept. `SEQ2SEQ_ATTN_NATIVE=0` in the environment leaves them out.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from seq2seq_attn.ops.native.build import library

__all__ = ["has_kernels", "run"]


def has_kernels(tensor: Tensor) -> bool:
    """Whether `run` takes such a tensor: one in fp32 or bf16 on a CPU for which there are kernels."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.bfloat16)
        and library(tensor.dtype) is not None
    )


def run(kernel: str, dtype: torch.dtype, *arguments: Tensor | int | float | None) -> None:
    """Calls the kernel of this name that is made for numbers of this type, on as many threads as torch uses.

    A tensor goes as its address: its numbers lie as the kernel says, and its memory is written to where the kernel
    says so. None is an address, too: nowhere.
    """
    getattr(library(dtype), kernel)(*map(_passed, arguments), ctypes.c_int64(torch.get_num_threads()))


def _passed(argument: Tensor | int | float | None) -> object:
    if isinstance(argument, int):
        return ctypes.c_int64(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_void_p(None if argument is None else argument.data_ptr())
