"""Dropout whose mask takes a fraction of the time of torch's on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import first_derivative_only
from seq2seq_attn.ops.form import Form

LEVELS = 1 << 16  # probabilities are quantized to this many


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
        dropped = self._dropped()
        if dropped == 0:
            return input
        return _apply(input, None, dropped) if _has_kernel(dropped, input) else super().forward(input)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), in one pass over memory where there is a kernel."""
        dropped = self._dropped()
        if x.shape == y.shape and x.dtype == y.dtype and _has_kernel(dropped, x, y):
            return _apply(y, x, dropped)
        added: Tensor = x + self(y)
        return added

    def _dropped(self) -> int:
        """The number of LEVELS at which an element is dropped."""
        return round(self.p * LEVELS) if self.training else 0


def _has_kernel(dropped: int, *inputs: Tensor) -> bool:
    return 0 < dropped < LEVELS and all(map(native.has_kernels, inputs))


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
    scale = LEVELS / (LEVELS - dropped)
    native.run("dropout", x.dtype, numbers=x.numel(), x=x, addend=addend, y=y, seed=seed, dropped=dropped, scale=scale)
    return y
