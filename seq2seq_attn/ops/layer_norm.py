"""Layer normalization in recurrent models: of many rows at once, and of a cell's gates within a loop over steps.

On a CPU, the backward pass of `torch.nn.LayerNorm` in half precision sums the gradients of gain and bias over all rows
in half precision: with a thousand rows they are off by a tenth. Here they are summed in full precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.ops.form import Form


class LayerNorm(Form, nn.LayerNorm):
    """`torch.nn.LayerNorm` in full precision, rounded to the dtype of x at the end."""

    stands_for = nn.LayerNorm

    def forward(self, input: Tensor) -> Tensor:
        gain, bias = (None if each is None else full_precision(each) for each in (self.weight, self.bias))
        return F.layer_norm(full_precision(input), self.normalized_shape, gain, bias, self.eps).to(input.dtype)


class NormWeights(NamedTuple):
    """The parameters of `torch.nn.LayerNorm`; without them, the gates are not normalized."""

    gain: Tensor | None = None  # (K,)
    bias: Tensor | None = None  # (K,)
    eps: float = 0.0


NOT_NORMALIZED = NormWeights()


def norm_weights(norm: nn.Module) -> NormWeights:
    """Of a LayerNorm or an Identity for which `why_not_norm` is None."""
    return NormWeights(norm.weight, norm.bias, norm.eps) if isinstance(norm, nn.LayerNorm) else NOT_NORMALIZED


def why_not_norm(norm: nn.Module, linear: nn.Linear) -> str | None:
    """Why `GateNorm` cannot replace this module on the outputs of this layer; None if it can."""
    if type(norm) is nn.Identity:
        return None
    if type(norm) is not nn.LayerNorm or norm.normalized_shape != (linear.out_features,):
        return f"the gates are normalized by {type(norm).__name__}"
    if not norm.elementwise_affine or norm.bias is None:
        return "layer normalization of the gates has no gain or no bias"
    if not {norm.weight.dtype, norm.bias.dtype} <= {torch.float32, linear.weight.dtype}:
        return f"layer normalization of the gates is in {str(norm.weight.dtype).removeprefix('torch.')}"
    return None


class GateNorm:
    """y = γ (x - mean x) / sqrt(var x + ε) + β of the rows x (N, K) of every step, outside autograd.

    Ba et al. 2016, eq. 4; computed in full precision. Without γ, y is x, and nothing is saved.
    """

    def __init__(self, weights: NormWeights, saved: Sequence[Tensor] = ()) -> None:
        self.gain, self.bias, self.eps = weights
        self.saved = list(saved)  # of every step: x, y, mean x and 1 / sqrt(var x + ε)
        self.grad_gain: Tensor | None = None
        self.grad_bias: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """y of the next step."""
        if self.gain is None or self.bias is None:
            return x
        parameters = full_precision(self.gain), full_precision(self.bias), self.eps
        exact, mean, scale = torch.native_layer_norm(full_precision(x), [x.shape[1]], *parameters)
        y = exact.to(x.dtype)
        self.saved += x, y, mean, scale
        return y

    def last(self, x: Tensor) -> Tensor:
        """y of the last step in `saved`, whose x is given."""
        return x if self.gain is None else self.saved[-3]

    def backward_(self, gradient: Tensor) -> None:
        """Replaces dL/dy of the last step in `saved` by dL/dx, adds its part of dL/dγ and dL/dβ, and removes it."""
        if self.gain is None or self.bias is None:
            return
        scale, mean, _, x = (self.saved.pop() for _ in range(4))
        of_step = full_precision(gradient), full_precision(x), [x.shape[1]], mean, scale
        parameters = full_precision(self.gain), full_precision(self.bias)
        grad_x, grad_gain, grad_bias = torch.ops.aten.native_layer_norm_backward(*of_step, *parameters, [True] * 3)
        gradient.copy_(grad_x)
        self.grad_gain = grad_gain if self.grad_gain is None else self.grad_gain.add_(grad_gain)
        self.grad_bias = grad_bias if self.grad_bias is None else self.grad_bias.add_(grad_bias)

    @property
    def gradients(self) -> NormWeights:
        """dL/dγ and dL/dβ, after the last call of `backward_`."""
        if self.grad_gain is None or self.grad_bias is None or self.gain is None or self.bias is None:
            return NOT_NORMALIZED
        return NormWeights(self.grad_gain.to(self.gain.dtype), self.grad_bias.to(self.bias.dtype))
