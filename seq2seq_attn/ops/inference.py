"""A model whose weights no longer change, prepared for the products of decoding.

A decoding step multiplies a few rows with every matrix of the decoder, so that fetching the matrix is most of the
work. oneDNN reads one that is stored in the order its kernel wants two to four times as fast as MKL reads rows as they
are, and autocast casts every matrix again at every step. Both are done here once. What attention reads is summed by a
kernel that stores nothing on the way. Reference implementation: the model itself.
"""

from __future__ import annotations

import copy
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, History, Source
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.ops import native
from seq2seq_attn.ops.additive_decoder import why_not_softmax
from seq2seq_attn.ops.dispatch import is_reference, known, known_modules
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.linear import by_onednn, is_linear, onednn_is_faster
from seq2seq_attn.ops.replace import Model, replace_modules


def for_inference(model: Model) -> Model:
    """The same model for inference alone, with the weights as they are now; itself where nothing is gained.

    Its linear layers compute in the precision of this moment: autocast's, if it is on, or that of the weights. Apart
    from what was reordered or cast it shares all weights with `model`, and it stays on this device. Modules of a user,
    and those with hooks, are the same in both.
    """
    if is_reference():
        return model
    modules = known_modules(model)
    parts: dict[nn.Module, nn.Module] = {layer: InferenceLinear(layer) for layer in modules if _gains(layer)}
    if native.has_kernels(next(model.parameters(), torch.empty(0))):
        for attention in modules:
            if isinstance(attention, Attention) and why_not_softmax(attention) is None:
                parts[attention] = InferenceAttention(replace_modules(attention, parts))
    return replace_modules(model, parts) if parts else model


def with_rows(layer: nn.Linear, rows: Tensor) -> nn.Linear | None:
    """The layer with these of its outputs alone (M,), in this order; None if it is not a layer of this package."""
    if not (is_linear(layer) or isinstance(layer, (InferenceLinear, Int8Linear))):
        return None
    part = copy.copy(layer)
    part.out_features = len(rows)
    parameters = layer._parameters.items()
    part._parameters = {name: p if p is None else nn.Parameter(p.detach()[rows]) for name, p in parameters}
    return type(layer)(part) if isinstance(layer, (InferenceLinear, Int8Linear)) else part


@known
class InferenceLinear(nn.Linear):
    """A linear layer whose weight was cast and reordered beforehand."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.dtype = _product_dtype(layer.weight)
        self.by_onednn = _by_onednn(layer)
        with torch.no_grad():
            self.added = None if layer.bias is None else layer.bias.to(self.dtype)
            cast = layer.weight.to(self.dtype)
            self.packed = torch.ops.mkldnn._reorder_linear_weight(cast) if self.by_onednn else cast

    def forward(self, input: Tensor) -> Tensor:
        input = input.to(self.dtype)
        if not self.by_onednn:
            return F.linear(input, self.packed, self.added)
        return by_onednn(input, self.packed, self.added)


@known
class InferenceAttention(Attention):
    """The same weights and contexts, by a kernel, where the weights are a softmax of the scores of this step alone."""

    def __init__(self, attention: Attention) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(attention.__dict__)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Source:
        source = super().prepare(keys, values, is_token)
        return source._replace(values=source.values.to(_product_dtype(source.values)).contiguous())

    def _step(self, query: Query, source: Source, history: History) -> tuple[Contexts, Weights, History]:
        values = source.values
        is_restricted = source.bias is not None or (source.is_token is not None and source.is_token.shape[1] > 1)
        if is_restricted or (self.dropout and self.training):
            return super()._step(query, source, history)
        scores = self.scorer(query, source.prepared)
        if scores.dtype != values.dtype or not native.has_kernels(scores):
            return super()._step(query, source, history)
        (sentences, queries, length), width = scores.shape, values.shape[2]
        weights, contexts = torch.empty_like(scores), values.new_empty(sentences, queries, width)
        read = scores.contiguous(), source.is_token, values
        native.run("attention_read", scores.dtype, sentences, queries, length, width, *read, weights, contexts)
        return contexts, weights, history


def _gains(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer whose weight is to be cast or reordered."""
    return is_linear(layer) and (_by_onednn(layer) or _product_dtype(layer.weight) != layer.weight.dtype)


def _by_onednn(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and onednn_is_faster(_product_dtype(layer.weight))


def _product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision of products with this tensor: as in torch, autocast changes float32 alone."""
    device = tensor.device.type
    casts = torch.is_autocast_enabled(device) and tensor.dtype == torch.float32
    return torch.get_autocast_dtype(device) if casts else tensor.dtype
