"""Linear layers in int8 by dynamic quantization: weights are quantized once, inputs for every product.

This is an approximation. Logits deviate by about one per cent of their standard deviation, so that sometimes another
token has the highest probability. Measure for each model what this costs in BLEU.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.replace import Model, replace_modules
from seq2seq_attn.ops.form import Form, unchanged_modules
from seq2seq_attn.ops.layers import pad_rows, rows_of

MAX_INT8 = 127  # the range is symmetric, -127 to 127
MIN_SCALE = 1e-30  # so that a row of zeros is not divided by 0


def quantized(model: Model) -> Model:
    """A copy of the model for inference only, with int8 linear layers that hold the current weights.

    Everything else (torch's recurrent layers, embeddings, scores) computes as in `model` and shares its parameters.
    UserError if the model is not on a CPU, or if torch or the processor does not support int8 products.
    """
    if any(type(layer) is Int8Linear for layer in model.modules()):
        return model  # already quantized: a search asks at every call, and looking for changes takes a millisecond
    layers = [layer for layer in unchanged_modules(model) if type(layer) is nn.Linear]
    return replace_modules(model, {layer: Int8Linear.of(layer, {}) for layer in layers})


class Int8Linear(Form, nn.Linear):
    """y_n = s(x) s(W_n) Σ_k q(x)_k q(W_n)_k + b_n, with s(v) = max_k |v_k| / 127 and q(v) = round(v / s(v)).

    Every row W_n of the weight has a scale of its own (Wu et al. 2016, sec. 6), and so has every input vector x: a
    result does not depend on the rest of the batch. The sum in int32 is exact, and the rounding error |q s - v| is at
    most s / 2. Reference implementation: `torch.nn.Linear`, without quantization.
    """

    stands_for = nn.Linear

    @torch.no_grad()
    def pack(self) -> None:
        require_int8(self.weight.device.type)
        self.float_bias = None if self.bias is None else self.bias.float().clone()
        quantized_weight, scales = _quantize_rows(self.weight.float())
        self.packed = torch.ops.onednn.qlinear_prepack(quantized_weight, None)
        self.scales = scales.flatten()

    def forward(self, input: Tensor) -> Tensor:
        rows, scales = _quantize_rows(input.float().flatten(0, -2))
        result = _product(rows, self.packed, self.scales).mul_(scales)
        if self.float_bias is not None:
            result.add_(self.float_bias)
        return result.view(*input.shape[:-1], -1).to(input.dtype)

    def select(self, rows: Tensor) -> nn.Module:
        """The layer with only the outputs `rows` (M,), in this order."""
        return self.of(rows_of(self, rows), {})


def require_int8(device: str) -> None:
    """UserError if this type of device, torch or the processor does not support int8 products."""
    if device != "cpu":
        raise UserError(f"precision int8 needs a model on the CPU, but this one is on {device}; use bf16 there")
    if not has_int8():
        raise UserError("precision int8 needs oneDNN and VNNI, which this torch or this processor lacks; use fp32")


@cache
def has_int8() -> bool:
    """Whether torch and the processor support exact int8 products; without VNNI, sums saturate at 16 bits."""
    try:
        largest = torch.full((32, 64), MAX_INT8, dtype=torch.int8)
        sums = _product(largest, torch.ops.onednn.qlinear_prepack(largest, None), torch.ones(32, dtype=torch.float32))
    except (AttributeError, RuntimeError):
        return False
    return bool((sums == 64 * MAX_INT8**2).all())


def _quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """q(v) (M, K) int8 and s(v) (M, 1) of rows v (M, K)."""
    scales = (rows.abs().amax(dim=1, keepdim=True) / MAX_INT8).clamp_(min=MIN_SCALE)
    return (rows / scales).round_().to(torch.int8), scales


def _product(left: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """s_n Σ_k l_mk r_nk (M, N) in fp32, of int8 l (M, K), prepacked int8 r (N, K) and scales s (N,)."""
    # oneDNN's kernels want an unsigned left factor with a zero point. Flipping the sign bit adds 128 to each number.
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        pad_rows(left.view(torch.uint8) ^ 128),
        *(1.0, 128),  # scale and zero point of the left factor; the caller applies the scale of each row
        packed,
        *(scales, torch.zeros(1, dtype=torch.long)),
        None,  # bias
        *(1.0, 0, torch.float32),  # scale, zero point and dtype of the output
        *("none", [], ""),  # no operation fused after it
    )
    return product[: len(left)]
