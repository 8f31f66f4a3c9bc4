"""Dropout whose mask takes a fraction of the time of torch's on a CPU.

Reference implementation: `torch.nn.functional.dropout`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, fusible, unsupported

LEVELS = 1 << 16  # probabilities are quantized to this many


@fusible
class Dropout(nn.Module):
    """In training, y = 0 with probability p, otherwise x / (1 - p), for each element   (Srivastava et al. 2014).

    As `torch.nn.Dropout`, but on a CPU each decision uses 16 random bits: p is rounded to a multiple of 2^-16. The
    scale uses the rounded p, so the expectation of y is x exactly.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.dropped()
        if dropped == 0:
            return x
        if _has_kernel(dropped, x):
            return _apply(x, None, dropped)
        if x.device.type != "cpu" or dropped == LEVELS or unsupported(x) is not None:
            return nn.functional.dropout(x, self.p)
        return x * _keep_mask(x, dropped).to(x.dtype).mul_(_scale(dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def dropped(self) -> int:
        """The number of LEVELS at which an element is dropped."""
        return round(self.p * LEVELS) if self.training else 0


def add_dropped(x: Tensor, y: Tensor, dropout: nn.Module) -> Tensor:
    """x + dropout(y), in one pass over memory if `dropout` is an unmodified `Dropout` that the kernel computes."""
    if type(dropout) is Dropout and changed(dropout) is None:
        dropped = dropout.dropped()
        if x.shape == y.shape and x.dtype == y.dtype and _has_kernel(dropped, x, y):
            return _apply(y, x, dropped)
    added: Tensor = x + dropout(y)
    return added


def _has_kernel(dropped: int, *inputs: Tensor) -> bool:
    return 0 < dropped < LEVELS and unsupported(*inputs) is None and all(map(native.has_kernels, inputs))


def _apply(x: Tensor, addend: Tensor | None, dropped: int) -> Tensor:
    seed = int(torch.empty((), dtype=torch.int64).random_())
    result: Tensor = _Dropout.apply(x, addend, dropped, seed)  # type: ignore[no-untyped-call]
    return result


class _Dropout(torch.autograd.Function):
    """dropout(x) or a + dropout(x) by the kernel, which derives the mask from a seed in both passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, addend: Tensor | None, dropped: int, seed: int) -> Tensor:
        ctx.dropped, ctx.seed = dropped, seed
        return _dropout(x, addend, dropped, seed)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        grad_x = _dropout(grad_y, None, ctx.dropped, ctx.seed) if ctx.needs_input_grad[0] else None
        return grad_x, grad_y if ctx.needs_input_grad[1] else None, None, None


def _dropout(x: Tensor, addend: Tensor | None, dropped: int, seed: int) -> Tensor:
    x, addend = x.contiguous(), None if addend is None else addend.contiguous()
    y = torch.empty_like(x)
    native.run("dropout", x.dtype, x.numel(), x, addend, y, seed, dropped, _scale(dropped))
    return y


def _scale(dropped: int) -> float:
    """Of what is kept."""
    return LEVELS / (LEVELS - dropped)


def _keep_mask(x: Tensor, dropped: int) -> Tensor:
    """True with probability 1 - dropped / LEVELS; one draw of 64 bits gives four elements, in torch only one."""
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    return (bits.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2).view(x.shape)
