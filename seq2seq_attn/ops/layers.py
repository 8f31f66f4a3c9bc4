"""Linear layers, dropout and layer normalization; matrix products by the library that is fastest: MKL or oneDNN.

Torch computes fp32 products with MKL, which uses AVX-512 on Intel processors only. oneDNN, which torch includes for
bf16, uses it on all processors that have it: on an AMD EPYC with AVX-512 it is more than twice as fast at the shapes of
training. With AVX2 alone, MKL is as fast for many rows and up to twice as fast for few (benchmarks/changes.md). In bf16
torch itself calls oneDNN, but first copies the bias to every row. The choice depends on the processor and the shape
alone, so that runs are reproducible.

oneDNN compiles a kernel for every shape, which takes half a millisecond and half a megabyte, and caches the last
thousand. Batches of sentences have more shapes than that. So rows are padded to a multiple of 16 or 64, and a sum over
rows is split into a multiple of 64 and a padded remainder.

A constant weight can be packed beforehand: for oneDNN in its own layout, or in panels for a kernel, which with AVX-512
is one and a half to four times as fast as MKL for the few rows of a decoding step, and as fast for many.
"""

from __future__ import annotations

import copy
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import apply, first_derivative_only
from seq2seq_attn.ops.form import Form

MIN_MULTIPLICATIONS = 1 << 20  # below this, the call costs more than oneDNN saves
MIN_WEIGHTS = 1 << 17  # in fp32: MKL multiplies by smaller matrices as fast
FINE, COARSE = 16, 64  # the number of rows is a multiple of FINE up to FEW_ROWS, of COARSE beyond
FEW_ROWS = 256
LEVELS = 1 << 16  # probabilities of dropout are quantized to this many
PANEL = 32  # outputs of a packed matrix that are neighbors in memory, as in native/panels.h


class Linear(Form, nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    stands_for = nn.Linear

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def select(self, rows: Tensor) -> nn.Module:
        """The layer with only the outputs `rows` (M,), in this order."""
        return rows_of(self, rows)


def rows_of(layer: nn.Linear, rows: Tensor) -> nn.Linear:
    """A copy of a linear layer with only the outputs `rows` (M,), in this order, whose parameters are constant."""
    part = copy.copy(layer)
    part.out_features = len(rows)
    parameters = layer._parameters.items()
    part._parameters = {name: p if p is None else nn.Parameter(p.detach()[rows]) for name, p in parameters}
    return part


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b (..., N) of x (..., K), weight (N, K) and bias (N,), as `torch.nn.functional.linear`.

    RuntimeError if a second derivative is taken (`first_derivative_only`).
    """
    if torch.is_autocast_enabled(x.device.type):
        if x.device.type != "cpu" or x.numel() <= FEW_ROWS * weight.shape[1]:
            return F.linear(x, weight, bias)  # autocast caches the cast weight for later steps
        dtype = torch.get_autocast_dtype("cpu")
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    if not _use_onednn(x, weight):
        return F.linear(x, weight, bias)
    result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


def stacked(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """Weight and bias of a layer with the outputs of all of these, which have the same input."""
    weight = torch.cat([layer.weight for layer in layers])
    return weight, torch.cat(
        [weight.new_zeros(part.out_features) if part.bias is None else part.bias for part in layers]
    )


def panels(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """As `stacked`, packed for the kernels: the weight (⌈outputs / PANEL⌉, inputs, PANEL), both padded with zeros."""
    weight, bias = stacked(layers)
    missing = -len(bias) % PANEL
    packed = F.pad(weight, (0, 0, 0, missing)).view(-1, PANEL, weight.shape[1]).transpose(1, 2)
    return packed.contiguous(), F.pad(bias, (0, missing))


def panels_are_faster(weight: Tensor) -> bool:
    """Whether `panel_linear` takes such a weight, and is faster than torch: with AVX-512, and where torch uses MKL."""
    is_fp32 = weight.dtype == torch.float32
    return is_fp32 and _has_avx512() and not onednn_is_faster(weight.dtype) and native.has_kernels(weight)


def panel_linear(x: Tensor, weight: Tensor, bias: Tensor, outputs: int) -> Tensor:
    """x W' + b (..., N) of x (..., K), and weight and bias as `panels` returns them; outside autograd, in float32."""
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    result = rows.new_empty(len(rows), outputs)
    native.run(
        "panel_linear", torch.float32, rows=rows.shape[0], inputs=rows.shape[1], outputs=outputs, x=rows, panels=weight,
        bias=bias, y=result,
    )  # fmt: skip
    return result.view(*x.shape[:-1], outputs)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b (..., N) outside autograd, for operations with a hand-written backward pass; shapes as in `linear`."""
    if not _use_onednn(x, weight):
        return F.linear(x, weight, bias)
    return onednn_linear(x, weight, bias)


def add_product(addend: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """a + x W' (M, N) outside autograd, of a (M, N), x (M, K) and weight (N, K)."""
    if not _use_onednn(x, weight):
        return torch.addmm(addend, x, weight.t())
    return onednn_linear(x, weight, None).add_(addend)


def weight_gradient(grad_y: Tensor, x: Tensor) -> Tensor:
    """dL/dW = Σ_m dL/dy_m x_m' (N, K) of y = x W', outside autograd, from dL/dy (M, N) and x (M, K)."""
    whole = len(x) // COARSE * COARSE
    left, right = grad_y[:whole], x[:whole]
    if not _use_onednn(left, right.t(), left.shape[1] * right.shape[1]):
        return grad_y.t() @ x
    if x.dtype == torch.bfloat16:  # torch calls oneDNN, which takes transposed operands without a copy
        result = left.t() @ right
    elif grad_y.shape[1] > x.shape[1] and grad_y.is_contiguous():
        # The operator copies its first operand to transpose it, so the narrower one comes first. If the second is a
        # slice of a wider tensor, the operator takes a hundred times as long.
        result = torch.ops.mkldnn._linear_pointwise(right.t(), left.t(), None, "none", [], "").t()
    else:
        result = torch.ops.mkldnn._linear_pointwise(left.t(), right.t(), None, "none", [], "")
    if whole == len(x):
        return result
    rest_y, rest_x = (F.pad(part[whole:], (0, 0, 0, whole + COARSE - len(x))) for part in (grad_y, x))
    return result.addmm_(rest_y.t(), rest_x)


def add_weight_gradient_(total: Tensor, grad_y: Tensor, x: Tensor) -> None:
    """Adds `weight_gradient` of these rows to a total (N, K), whose dtype may be wider."""
    if total.dtype != x.dtype or _use_onednn(grad_y, x.t(), total.numel()):
        total += weight_gradient(grad_y, x)
    else:
        total.addmm_(grad_y.t(), x)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b (..., N) by oneDNN, with rows padded by `pad_rows`; the weight may be in oneDNN's own layout."""
    if x.dim() == 2 and x.shape[0] <= FINE:  # without the reshaping, which is noticeable in a step of a search
        few: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return few
    rows = x.flatten(0, -2)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(pad_rows(rows), weight, bias, "none", [], "")
    return result[: rows.shape[0]].view(*x.shape[:-1], -1)


def pad_rows_for(x: Tensor, weight: Tensor) -> Tensor:
    """x (M, K) with the rows of zeros that `product` would add, for callers that reuse the padded rows."""
    return pad_rows(x) if _use_onednn(x, weight) else x


def pad_rows(rows: Tensor) -> Tensor:
    """Rows (M, K), padded with rows of zeros to a multiple of FINE or COARSE."""
    count = rows.shape[0]
    missing = -count % (FINE if count <= FEW_ROWS else COARSE)
    return F.pad(rows, (0, 0, 0, missing)) if missing and count > FINE else rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return product(x, weight, bias)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, _ = ctx.needs_input_grad
        rows = grad_y.reshape(-1, len(weight))
        return (
            product(grad_y, weight.t()) if needs_x else None,
            weight_gradient(rows, x.reshape(-1, x.shape[-1])) if needs_weight else None,
            rows.sum(dim=0) if ctx.has_bias else None,
        )


def _use_onednn(x: Tensor, weight: Tensor, weights: int | None = None) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype
        and x.numel() * len(weight) >= MIN_MULTIPLICATIONS
        and (x.dtype != torch.float32 or (weights or weight.numel()) >= MIN_WEIGHTS)
        and onednn_is_faster(x.dtype)
    )


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies matrices of this dtype; in bf16, not on processors without instructions for it."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and (dtype != torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))


@cache
def onednn_is_faster(dtype: torch.dtype) -> bool:
    """True in bf16 if oneDNN supports it, and in fp32 with AVX-512 where torch would use MKL without it."""
    if dtype == torch.bfloat16:
        return has_onednn(dtype)
    by_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    by_onednn = dtype == torch.float32 and has_onednn(dtype)
    return by_onednn and by_mkl and _has_avx512() and "GenuineIntel" not in _cpu_description()


def _has_avx512() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def _cpu_description() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()


class LayerNorm(Form, nn.LayerNorm):
    """`torch.nn.LayerNorm` in full precision, rounded to the dtype of x at the end.

    On a CPU, its backward pass in half precision sums the gradients of gain and bias over all rows in half precision:
    with a thousand rows they are off by a tenth.
    """

    stands_for = nn.LayerNorm

    def forward(self, input: Tensor) -> Tensor:
        gain, bias = (None if each is None else full_precision(each) for each in (self.weight, self.bias))
        return F.layer_norm(full_precision(input), self.normalized_shape, gain, bias, self.eps).to(input.dtype)


class Dropout(Form, nn.Dropout):
    """`torch.nn.Dropout`, by a kernel where there is one (Srivastava et al. 2014).

    There, each decision uses 16 random bits: p is rounded to a multiple of 2^-16. The scale uses the rounded p, so the
    expectation of the result is x exactly.
    """

    stands_for = nn.Dropout

    @classmethod
    def why_not(cls, module: nn.Dropout) -> str | None:
        return "it works in place" if module.inplace else None

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * LEVELS) if self.training else 0  # levels at which an element is dropped
        if dropped == 0:
            return input
        if dropped == LEVELS or not native.has_kernels(input):
            return super().forward(input)
        seed = int(torch.empty((), dtype=torch.int64).random_())
        result: Tensor = apply(_Dropout(input, dropped, seed))
        return result


class _Dropout(NamedTuple):
    """What determines the mask in both passes, and the numbers or the gradients that it is applied to."""

    x: Any
    dropped: int
    seed: int

    def forward(self) -> tuple[Tensor, _Dropout]:
        x, dropped = self.x.contiguous(), self.dropped
        y = torch.empty_like(x)
        native.run(
            "dropout", x.dtype, numbers=x.numel(), x=x, y=y, seed=self.seed, dropped=dropped,
            scale=LEVELS / (LEVELS - dropped),
        )  # fmt: skip
        return y, self._replace(x=None)

    def backward(self, *gradients: Tensor | None) -> _Dropout:
        return self._replace(x=self._replace(x=gradients[0]).forward()[0])
