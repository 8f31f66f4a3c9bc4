"""Kernels for operations that would take torch several passes over memory, or many launches of small operations.

Those for the CPU are in C++; those for a GPU, the steps of a recurrent decoder alone, in Triton (`gpu.py`). Each has an
implementation in torch next to its caller, or is used by a form that falls back to the class it stands for: for
machines without a compiler or Triton, other devices and other dtypes. Kernels are compiled when they are first needed,
those in C++ by `build.py` in two seconds, and cached. `SEQ2SEQ_ATTN_NATIVE=0` in the environment disables them.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor, nn

from seq2seq_attn.ops.native.build import SWITCH, library, warn_of_no_kernels
from seq2seq_attn.ops.native.declarations import Kernel, declared

__all__ = ["LONGEST_SOURCE_ON_GPU", "gpu_kernels", "has_kernels", "run"]

LONGEST_SOURCE_ON_GPU = 1024  # its kernels hold the scores of a sentence in registers


def has_kernels(tensor: Tensor) -> bool:
    """Whether `run` takes such a tensor: fp32 or bf16, on a CPU, and the kernels are compiled."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.bfloat16)
        and library(tensor.dtype) is not None
    )


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


@cache
def _kernel(name: str, dtype: torch.dtype) -> Kernel:
    compiled = library(dtype)
    if compiled is None:
        raise RuntimeError(f"there is no kernel {name}: see `has_kernels`")
    return declared(compiled, name, dtype)


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
