"""Linear layers that multiply bytes: the weights are rounded once, the inputs for every product.

It is an approximation. A number keeps at most eight bits of itself, so that logits are off by about a hundredth of
their spread, and now and then another token comes out on top; what that costs in BLEU is to be measured for each model.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.ops.dispatch import known, known_modules
from seq2seq_attn.ops.linear import in_few_shapes, is_linear
from seq2seq_attn.ops.replace import Model, replace_modules

LARGEST = 127  # of a rounded number's magnitude
LEAST_SCALE = 1e-30  # of a row of zeros, which would be divided by 0


def quantised(model: Model) -> Model:
    """The same model for inference alone, its linear layers in bytes, with the weights as they are now.

    All that is no linear layer (a recurrent encoder, embeddings, scores) computes as in `model` and shares its weights.
    Raises UserError where there is no such product: on a device that is no CPU, on a processor or in a torch without.
    """
    layers: dict[nn.Module, nn.Module] = {
        layer: Int8Linear(layer) for layer in known_modules(model) if is_linear(layer)
    }
    return replace_modules(model, layers) if layers else model


@known
class Int8Linear(nn.Linear):
    """y_n = s(x) s(W_n) Σ_k q(x)_k q(W_n)_k + b_n, with s(v) = max_k |v_k| / 127 and q(v) = round(v / s(v)).

    A row W_n of the weight is rounded with a scale of its own (Wu et al. 2016, sec. 6), and so is every input x: its
    result does not depend on what else is in the batch. Products of bytes are summed in 32 bits, without an error, and
    |q s - v| is at most s / 2. What `torch.nn.Linear` computes is the same without the rounding.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        need_int8(layer.weight.device.type)
        self.weight, self.bias = layer.weight, layer.bias
        with torch.no_grad():
            self.added = None if layer.bias is None else layer.bias.float().clone()
            rounded, scales = _rounded(layer.weight.float())
            self.packed = torch.ops.onednn.qlinear_prepack(rounded, None)
            self.scales = scales.flatten()

    def forward(self, input: Tensor) -> Tensor:
        rounded, scales = _rounded(input.float().flatten(0, -2))
        result = _product(rounded, self.packed, self.scales).mul_(scales)
        if self.added is not None:
            result.add_(self.added)
        return result.view(*input.shape[:-1], -1).to(input.dtype)


def need_int8(device: str) -> None:
    """UserError if products of bytes cannot be had on this type of device."""
    if device != "cpu":
        raise UserError(f"precision int8 is for a model on the CPU, and this one is on {device}; use bf16 there")
    if not has_int8():
        raise UserError("precision int8 needs oneDNN and VNNI, which this torch or this processor lacks; use bf16")


@cache
def has_int8() -> bool:
    """Whether bytes are multiplied here, and without an error: processors without VNNI overflow in 16 bits."""
    try:
        largest = torch.full((32, 64), LARGEST, dtype=torch.int8)
        found = _product(largest, torch.ops.onednn.qlinear_prepack(largest, None), torch.ones(32))
    except (AttributeError, RuntimeError):
        return False
    return bool((found == 64 * LARGEST**2).all())


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """q(v) (M, K) int8 and s(v) (M, 1) of rows v (M, K)."""
    scales = (rows.abs().amax(dim=1, keepdim=True) / LARGEST).clamp_(min=LEAST_SCALE)
    return (rows / scales).round_().to(torch.int8), scales


def _product(left: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """s_n Σ_k l_mk r_nk (M, N) in fp32 of int8 l (M, K), r (N, K) laid out, and scales s (N,)."""
    # oneDNN has its kernels for a left factor without a sign, and takes the zero off: with the bit of the sign turned
    # over, a byte counts from -128.
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        in_few_shapes(left.view(torch.uint8) ^ 128),
        *(1.0, 128),  # scale and zero of the left factor; each row's own scale is the caller's
        packed,
        *(scales, torch.zeros(1, dtype=torch.long)),
        None,  # bias
        *(1.0, 0, torch.float32),  # scale, zero and type of the product
        *("none", [], ""),  # and nothing done to it
    )
    return product[: len(left)]
