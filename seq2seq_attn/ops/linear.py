"""Linear layers and matrix products, by the fastest way that the processor has.

Reference implementation: `torch.nn.functional.linear`.

Torch gives products in fp32 to MKL, which takes its fast paths on Intel's processors only. oneDNN, which torch has for
bf16, takes them everywhere: on an AMD EPYC with AVX-512 it is more than twice as fast at the shapes of training
(benchmarks/README.md). In bf16 torch goes to oneDNN itself, but copies the bias to every row beforehand. Which way is
taken depends on the processor and the shape alone, so that a run repeated gives the same numbers.

oneDNN compiles a kernel for every shape, half a millisecond and half a megabyte each, and keeps the last thousand.
Batches of sentences have more shapes than that, so products are made of few: rows are padded to a round number, and a
sum over rows is cut into two such.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.ops.dispatch import changed, first_derivative_only, known, unserved

LEAST = 1 << 20  # multiplications; below, the call costs more than oneDNN saves
FINE, COARSE = 16, 64  # numbers of rows are multiples of the first up to SMALL, of the second beyond
SMALL = 256


@known
class Linear(nn.Linear):
    """`torch.nn.Linear` with this module's products."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def is_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer of torch's class or of this module's, as it was made."""
    return type(layer) in (nn.Linear, Linear) and changed(layer) is None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, first derivatives only: x (..., K), weight (N, K), bias (N,) give (..., N)."""
    if unserved(x, weight, bias) is not None:
        return F.linear(x, weight, bias)
    if torch.is_autocast_enabled(x.device.type):
        if x.device.type != "cpu" or x.numel() <= SMALL * weight.shape[1]:
            return F.linear(x, weight, bias)  # which keeps the cast weight for the steps to come
        dtype = torch.get_autocast_dtype("cpu")
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b outside autograd, for operations with a hand-written backward."""
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    return by_onednn(x, weight, bias)


def plus_product(addend: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """a + x W' outside autograd: a (M, N), x (M, K), weight (N, K)."""
    if not _by_onednn(x, weight):
        return torch.addmm(addend, x, weight.t())
    return by_onednn(x, weight, None).add_(addend)


def summed_product(left: Tensor, right: Tensor) -> Tensor:
    """Σ_m l_m r_m' (N, K) outside autograd, l (M, N), r (M, K): the gradient of a weight."""
    whole = len(left) // COARSE * COARSE
    first, second = left[:whole], right[:whole]
    if not _by_onednn(first, second.t()):
        return left.t() @ right
    if left.dtype == torch.bfloat16:  # oneDNN reads both as they lie
        result = first.t() @ second
    elif left.shape[1] > right.shape[1] and left.is_contiguous():
        # The operator copies its first operand to transpose it: better the narrower. With a slice as its second it
        # takes a hundred times as long.
        result = torch.ops.mkldnn._linear_pointwise(second.t(), first.t(), None, "none", [], "").t()
    else:
        result = torch.ops.mkldnn._linear_pointwise(first.t(), second.t(), None, "none", [], "")
    if whole == len(left):
        return result
    rest_left, rest_right = (F.pad(part[whole:], (0, 0, 0, whole + COARSE - len(left))) for part in (left, right))
    return result.addmm_(rest_left.t(), rest_right)


def by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b by oneDNN, with W as it is or reordered for oneDNN, in one of few shapes."""
    if x.dim() == 2 and len(x) <= FINE:  # a step of a search is so short that every line counts
        few: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return few
    rows = x.flatten(0, -2)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(in_few_shapes(rows), weight, bias, "none", [], "")
    return result[: len(rows)].view(*x.shape[:-1], -1)


def padded_for(x: Tensor, weight: Tensor) -> Tensor:
    """x (M, K) with the rows of zeros that `product` would add, for a caller that goes on with all rows."""
    return in_few_shapes(x) if _by_onednn(x, weight) else x


def in_few_shapes(rows: Tensor) -> Tensor:
    """Rows (M, K), padded with rows of zeros to a round number."""
    missing = -len(rows) % (FINE if len(rows) <= SMALL else COARSE)
    return F.pad(rows, (0, 0, 0, missing)) if missing and len(rows) > FINE else rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return product(x, weight, bias)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, _ = ctx.needs_input_grad
        rows = gradient.reshape(-1, len(weight))
        return (
            product(gradient, weight.t()) if needs_x else None,
            summed_product(rows, x.reshape(-1, x.shape[-1])) if needs_weight else None,
            rows.sum(dim=0) if ctx.has_bias else None,
        )


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and x.numel() * len(weight) >= LEAST
        and onednn_is_faster(x.dtype)
    )


@cache
def onednn_is_faster(dtype: torch.dtype) -> bool:
    """In bf16 where the processor has it, in fp32 where MKL would compute on a processor that is not Intel's."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    by_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return dtype == torch.float32 and by_mkl and "GenuineIntel" not in _cpu_description()


def _cpu_description() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
