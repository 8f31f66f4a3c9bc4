"""Dropout whose mask takes a fraction of the time of torch's on a CPU.

Reference implementation: `torch.nn.functional.dropout`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import first_derivative_only, fusible, unsupported

LEVELS = 1 << 16  # probabilities are quantised to this many


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
        dropped = round(self.p * LEVELS)
        if not self.training or dropped == 0:
            return x
        if x.device.type != "cpu" or dropped == LEVELS or unsupported(x) is not None:
            return nn.functional.dropout(x, self.p)
        if native.has_kernels(x):
            seed = int(torch.empty((), dtype=torch.int64).random_())
            result: Tensor = _Dropout.apply(x, seed, dropped)  # type: ignore[no-untyped-call]
            return result
        return x * _keep_mask(x, dropped).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _Dropout(torch.autograd.Function):
    """Dropout by the kernel, which derives the mask from a seed, in the forward and again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int) -> Tensor:
        ctx.seed, ctx.dropped = seed, dropped
        return _kernel(x, seed, dropped)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor, None, None]:
        return _kernel(grad_y, ctx.seed, ctx.dropped), None, None


def _kernel(x: Tensor, seed: int, dropped: int) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    native.run("dropout", x.dtype, x.numel(), x, y, seed, dropped, LEVELS / (LEVELS - dropped))
    return y


def _keep_mask(x: Tensor, dropped: int) -> Tensor:
    """True with probability 1 - dropped / LEVELS; one draw of 64 bits gives four elements, in torch only one."""
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    return (bits.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2).view(x.shape)
