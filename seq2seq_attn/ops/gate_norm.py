"""Layer normalisation of a cell's gates within the loops of gru.py, decoder.py and input_feeding.py.

Reference implementation: `torch.nn.LayerNorm`, called at every step. The gradients of its gain and bias are summed over
the steps here, not by autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn


class NormWeights(NamedTuple):
    """The parameters of `torch.nn.LayerNorm`; without them, the gates are not normalised."""

    gain: Tensor | None = None  # (K,)
    bias: Tensor | None = None  # (K,)
    eps: float = 0.0


NOT_NORMALISED = NormWeights()


def norm_weights(norm: nn.Module) -> NormWeights:
    """Of a LayerNorm or an Identity for which `why_not_norm` is None."""
    return NormWeights(norm.weight, norm.bias, norm.eps) if isinstance(norm, nn.LayerNorm) else NOT_NORMALISED


def why_not_norm(norm: nn.Module, size: int) -> str | None:
    """Why `GateNorm` cannot replace this module on rows of `size` numbers; None if it can."""
    if type(norm) is nn.Identity:
        return None
    if type(norm) is not nn.LayerNorm or norm.normalized_shape != (size,):
        return f"the gates are normalised by {type(norm).__name__}"
    has_parameters = norm.weight is not None and norm.bias is not None
    return None if has_parameters else "layer normalisation of the gates has no gain or no bias"


class GateNorm:
    """y = γ (x - mean x) / sqrt(var x + ε) + β of the rows x (N, K) of every step, outside autograd.

    Ba et al. 2016, eq. 4; computed in the dtype of γ. Without γ, y is x, and nothing is saved.
    """

    def __init__(self, weights: NormWeights, saved: Iterable[Tensor] = ()) -> None:
        self.gain, self.bias, self.eps = weights
        self.saved = list(saved)  # of every step: x, its mean and 1 / standard deviation
        self.grad_gain = None if self.gain is None else torch.zeros_like(self.gain)
        self.grad_bias = None if self.bias is None else torch.zeros_like(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """y of the next step."""
        if self.gain is None:
            return x
        exact = x.to(self.gain.dtype)
        y, mean, scale = torch.native_layer_norm(exact, [x.shape[1]], self.gain, self.bias, self.eps)
        self.saved += exact, mean, scale
        return y.to(x.dtype)

    def backward_(self, gradient: Tensor) -> None:
        """Replaces dL/dy of the last step in `saved` by dL/dx, adds its part of dL/dγ and dL/dβ, and removes it."""
        if self.gain is None or self.grad_gain is None or self.grad_bias is None:
            return
        scale, mean, x = (self.saved.pop() for _ in range(3))
        grad_x, grad_gain, grad_bias = torch.ops.aten.native_layer_norm_backward(
            gradient.to(x.dtype), x, [x.shape[1]], mean, scale, self.gain, self.bias, [True, True, True]
        )
        gradient.copy_(grad_x)
        self.grad_gain += grad_gain
        self.grad_bias += grad_bias

    @property
    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """dL/dγ and dL/dβ, after the last call of `backward_`."""
        return self.grad_gain, self.grad_bias


def gate_norms(
    eps: Sequence[float], parameters: Sequence[Tensor | None], saved: Iterator[Tensor] | None = None, steps: int = 0
) -> list[GateNorm]:
    """The norms with these ε and these gains and biases, in turn; with what each saved of so many steps, in turn."""
    weights = map(NormWeights, parameters[::2], parameters[1::2], eps)
    return [GateNorm(each, islice(saved or (), 0 if each.gain is None else 3 * steps)) for each in weights]
