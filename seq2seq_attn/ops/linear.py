"""Matrix products by the fastest way that the processor has; the plain statement of each is torch's own.

Torch gives products in fp32 to MKL, which takes its fast paths on Intel's processors only. oneDNN, which torch has for
bf16, takes them everywhere: on an AMD EPYC with AVX-512 it is more than twice as fast at the shapes of training
(benchmarks/README.md). In bf16 torch goes to oneDNN itself, but copies the bias to every row beforehand. Which way is
taken hangs on the processor and on the shape alone, so that a run repeated gives the same numbers.

oneDNN compiles a kernel for every shape, half a millisecond and half a megabyte each, and keeps the last thousand.
Batches of sentences have more shapes than that, so products are made of few: rows are filled up to a round number, and
a sum over rows is cut into two such.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST = 1 << 20  # multiplications below which the call costs more than oneDNN saves
FINE, COARSE = 16, 64  # counts of rows are multiples of the first up to SMALL, of the second beyond
SMALL = 256


class Linear(nn.Linear):
    """`torch.nn.Linear` with this module's products."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def multiply_here(part: nn.Module) -> None:
    """Puts a `Linear` with the same parameters in the place of each `torch.nn.Linear` within a part, in place."""
    for module in list(part.modules()):
        for name, layer in module.named_children():
            if type(layer) is nn.Linear:
                linear = Linear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
                linear.weight, linear.bias = layer.weight, layer.bias
                setattr(module, name, linear)


def is_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer of torch's kind or of this module's, and none of the user's own kind."""
    return type(layer) in (nn.Linear, Linear)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, first derivatives only: x (..., K), weight (N, K), bias (N,) give (..., N)."""
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
    """x W' + b outside of the graph, for what has its derivative written by hand."""
    if not _by_onednn(x, weight):
        return F.linear(x, weight, bias)
    return by_onednn(x, weight, bias)


def plus_product(addend: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """a + x W' outside of the graph: a (M, N), x (M, K), weight (N, K)."""
    if not _by_onednn(x, weight):
        return torch.addmm(addend, x, weight.t())
    return by_onednn(x, weight, None).add_(addend)


def summed_product(left: Tensor, right: Tensor) -> Tensor:
    """Σ_m l_m r_m' (N, K) outside of the graph, l (M, N), r (M, K): a weight's gradient."""
    whole = len(left) // COARSE * COARSE
    first, second = left[:whole], right[:whole]
    if not _by_onednn(first, second.t()):
        return left.t() @ right
    if left.dtype == torch.bfloat16:  # oneDNN reads both as they lie
        result = first.t() @ second
    elif left.shape[1] > right.shape[1] and left.is_contiguous():
        # The operator copies what it is given first to turn it around: better the narrower. A slice in the second
        # place takes it a hundred times as long.
        result = torch.ops.mkldnn._linear_pointwise(second.t(), first.t(), None, "none", [], "").t()
    else:
        result = torch.ops.mkldnn._linear_pointwise(first.t(), second.t(), None, "none", [], "")
    if whole == len(left):
        return result
    of_left, of_right = (F.pad(rest[whole:], (0, 0, 0, whole + COARSE - len(left))) for rest in (left, right))
    return result.addmm_(of_left.t(), of_right)


def by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b by oneDNN, W as it lies or as it was laid out for it, in one of few shapes."""
    if x.dim() == 2 and len(x) <= FINE:  # a step of a search is short enough for every line to count
        few: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return few
    rows = x.flatten(0, -2)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(in_few_shapes(rows), weight, bias, "none", [], "")
    return result[: len(rows)].view(*x.shape[:-1], -1)


def filled_up(x: Tensor, weight: Tensor) -> Tensor:
    """x (M, K) with the rows of zeros that `product` would add, for whom works on with what comes of all of them."""
    return in_few_shapes(x) if _by_onednn(x, weight) else x


def in_few_shapes(rows: Tensor) -> Tensor:
    """Rows (M, K) with rows of zeros below, up to a round number of them."""
    missing = -len(rows) % (FINE if len(rows) <= SMALL else COARSE)
    return F.pad(rows, (0, 0, 0, missing)) if missing and len(rows) > FINE else rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return product(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _ = ctx.needs_input_grad
        rows = gradient.reshape(-1, len(weight))
        return (
            product(gradient, weight.t()) if of_x else None,
            summed_product(rows, x.reshape(-1, x.shape[-1])) if of_weight else None,
            rows.sum(dim=0) if ctx.has_bias else None,
        )


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and x.numel() * len(weight) >= LEAST
        and onednn_is_faster(x.dtype)
        and not torch.compiler.is_compiling()  # which chooses the products itself
    )


@cache
def onednn_is_faster(dtype: torch.dtype) -> bool:
    """In bf16 where the processor has it, in fp32 where MKL would compute on a processor that is not Intel's."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    by_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return dtype == torch.float32 and by_mkl and "GenuineIntel" not in _maker()


def _maker() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
