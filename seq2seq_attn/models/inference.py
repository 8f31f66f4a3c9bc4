"""A model whose weights change no more, laid out for the products of decoding.

A step of decoding multiplies a few rows with every matrix of the decoder, so that fetching the matrix is most of the
work. oneDNN reads one that lies in the order in which its kernel wants it two to four times as fast as MKL reads rows
as they stand, and autocast casts every matrix anew at every step. Both are done here once. Additive scores are summed
by a kernel that stores nothing on the way.
"""

from __future__ import annotations

import copy
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn import native
from seq2seq_attn.attention.energy import Energy
from seq2seq_attn.attention.shapes import Prepared, Query, Scores
from seq2seq_attn.models.exchange import Model, exchanged
from seq2seq_attn.models.int8 import Int8Linear
from seq2seq_attn.models.products import by_onednn, is_linear, onednn_is_faster


def for_inference(model: Model) -> Model:
    """The same model for inference alone, with the weights as they are now; itself where nothing is to be gained.

    Its linear layers compute in the precision of this moment: autocast's, if it is on, or that of the weights. Beside
    what was laid out for them it shares all weights with `model`; it stays on this device, and hooks on the parts that
    are exchanged do not come along.
    """
    parts: dict[nn.Module, nn.Module] = {layer: InferenceLinear(layer) for layer in model.modules() if _gains(layer)}
    parts |= {energy: InferenceEnergy(energy) for energy in model.modules() if _has_kernel(energy)}
    return exchanged(model, parts) if parts else model


def with_rows(layer: nn.Linear, rows: Tensor) -> nn.Linear:
    """The layer with these of its outputs alone (M,), in this order, laid out as it is."""
    part = copy.copy(layer)
    part.out_features = len(rows)
    parameters = layer._parameters.items()
    part._parameters = {name: p if p is None else nn.Parameter(p.detach()[rows]) for name, p in parameters}
    return type(layer)(part) if isinstance(layer, (InferenceLinear, Int8Linear)) else part


class InferenceLinear(nn.Linear):
    """A linear layer whose weight was cast and laid out beforehand."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.dtype = _dtype(layer)
        self.by_onednn = _by_onednn(layer)
        with torch.no_grad():
            self.added = None if layer.bias is None else layer.bias.to(self.dtype)
            cast = layer.weight.to(self.dtype)
            self.laid_out = torch.ops.mkldnn._reorder_linear_weight(cast) if self.by_onednn else cast

    def forward(self, input: Tensor) -> Tensor:
        input = input.to(self.dtype)
        if not self.by_onednn:
            return F.linear(input, self.laid_out, self.added)
        return by_onednn(input, self.laid_out, self.added)


class InferenceEnergy(Energy):
    """The same scores, summed by a kernel; the pairs' own share and every other precision take the plain way."""

    def __init__(self, energy: Energy) -> None:
        nn.Module.__init__(self)
        self.v = energy.v

    def forward(self, queries: Query, prepared: Prepared, pairs: Tensor | None = None) -> Scores:
        if pairs is not None or prepared.dtype != torch.float32 or not native.has_kernels(queries):
            return super().forward(queries, prepared, pairs)
        sentences, steps, size = queries.shape
        scores = prepared.new_empty(sentences, steps, prepared.shape[1])
        arguments = queries.contiguous(), prepared.contiguous(), self.v.detach(), scores
        native.run("additive_scores", queries.dtype, sentences, steps, prepared.shape[1], size, *arguments)
        return scores.to(queries.dtype)


def _has_kernel(energy: nn.Module) -> TypeGuard[Energy]:
    return type(energy) is Energy and native.has_kernels(energy.v)


def _gains(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer that is to be cast or laid out otherwise."""
    return is_linear(layer) and (_by_onednn(layer) or _dtype(layer) != layer.weight.dtype)


def _by_onednn(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and onednn_is_faster(_dtype(layer))


def _dtype(layer: nn.Linear) -> torch.dtype:
    """What the layer computes in: as in torch, autocast changes float32 alone."""
    weight, device = layer.weight, layer.weight.device.type
    casts = torch.is_autocast_enabled(device) and weight.dtype == torch.float32
    return torch.get_autocast_dtype(device) if casts else weight.dtype
