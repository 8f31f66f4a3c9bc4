"""A model with constant weights, prepared for the matrix products of decoding.

A decoding step multiplies a few rows by every matrix of the decoder, so its time is mostly that of reading the
matrices from memory. From a packed matrix, oneDNN or a kernel computes the product two to four times as fast as MKL
from a row-major one; and autocast would cast every matrix again at every step. Here, each matrix is cast and packed
once. A kernel computes attention weights and contexts in one pass. Reference implementation: the model itself.
"""

from __future__ import annotations

import copy
from typing import Literal, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, History, Source
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.ops import native
from seq2seq_attn.ops.decoder import why_not_softmax
from seq2seq_attn.ops.dispatch import fusible, fusible_modules, is_reference
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.linear import is_linear, onednn_is_faster, onednn_linear, panel_linear, panels, panels_are_faster
from seq2seq_attn.ops.replace import Model, replace_modules


def for_inference(model: Model) -> Model:
    """A copy of the model for inference only, with the current weights; `model` itself if nothing can be gained.

    Its linear layers compute in autocast's dtype if autocast is enabled now, otherwise in that of the weights. It
    shares all parameters that are neither reordered nor cast, and it cannot be moved to another device. Modules that a
    user wrote or hooked are the same in both.
    """
    if is_reference():
        return model
    modules = fusible_modules(model)
    # Some have a faster form of their own; what is within them then needs no preparation.
    own = {module: getattr(module, "for_inference", lambda: None)() for module in modules}
    parts: dict[nn.Module, nn.Module] = {module: form for module, form in own.items() if form is not None}
    within = {part for module in parts for part in module.modules()}
    modules = [module for module in modules if module not in within]
    parts |= {layer: InferenceLinear(layer) for layer in modules if _benefits(layer)}
    if native.has_kernels(next(model.parameters(), torch.empty(0))):
        for attention in modules:
            if isinstance(attention, Attention) and why_not_softmax(attention) is None:
                parts[attention] = InferenceAttention(replace_modules(attention, parts))
    return replace_modules(model, parts) if parts else model


def select_outputs(layer: nn.Linear, rows: Tensor) -> nn.Module:
    """A layer with only the outputs `rows` (M,), in this order; a layer that a user changed computes all of them."""
    if not (is_linear(layer) or isinstance(layer, (InferenceLinear, Int8Linear))):
        return _Selected(layer, rows)
    part = copy.copy(layer)
    part.out_features = len(rows)
    parameters = layer._parameters.items()
    part._parameters = {name: p if p is None else nn.Parameter(p.detach()[rows]) for name, p in parameters}
    return type(layer)(part) if isinstance(layer, (InferenceLinear, Int8Linear)) else part


class _Selected(nn.Module):
    """The outputs `rows` of a layer."""

    def __init__(self, layer: nn.Module, rows: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.rows = rows

    def forward(self, input: Tensor) -> Tensor:
        outputs: Tensor = self.layer(input)
        return outputs[..., self.rows]


@fusible
class InferenceLinear(nn.Linear):
    """A linear layer with a weight that is cast and reordered once."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias, self.training = layer.weight, layer.bias, layer.training
        self.dtype = _product_dtype(layer.weight)
        self.product = _product(layer)
        with torch.no_grad():
            self.cast_bias = None if layer.bias is None else layer.bias.detach().to(self.dtype)
            if self.product == "panels":
                self.packed, self.cast_bias = panels([layer])
            elif self.product == "onednn":
                self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.to(self.dtype))
            else:
                self.packed = layer.weight.detach().to(self.dtype)

    def forward(self, input: Tensor) -> Tensor:
        input = input.to(self.dtype)
        if self.product == "onednn":
            return onednn_linear(input, self.packed, self.cast_bias)
        if self.product == "panels" and self.cast_bias is not None:
            return panel_linear(input, self.packed, self.cast_bias, self.out_features)
        return F.linear(input, self.packed, self.cast_bias)


@fusible
class InferenceAttention(Attention):
    """`Attention` whose weights and contexts a kernel computes; only if the weights are a softmax of current scores."""

    def __init__(self, attention: Attention) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(attention.__dict__)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Source:
        source = super().prepare(keys, values, is_token)
        return source._replace(values=source.values.to(_product_dtype(source.values)).contiguous())

    def _step(self, query: Query, source: Source, history: History) -> tuple[Contexts, Weights, History]:
        values = source.values
        # The kernel reads one row of the mask per sentence.
        mask = source.is_token
        is_restricted = source.bias is not None or (mask is not None and mask.shape[:2] != (source.sentences, 1))
        if is_restricted or (self.dropout and self.training):
            return super()._step(query, source, history)
        scores = self.scorer(query, source.prepared)
        fits = scores.shape == (source.sentences, query.shape[1], values.shape[1])  # a scorer of others may broadcast
        if not fits or scores.dtype != values.dtype or not native.has_kernels(scores):
            return super()._step(query, source, history)
        (sentences, queries, length), width = scores.shape, values.shape[2]
        weights, contexts = torch.empty_like(scores), values.new_empty(sentences, queries, width)
        inputs = scores.contiguous(), None if mask is None else mask.contiguous(), values
        native.run("attention_read", scores.dtype, sentences, queries, length, width, *inputs, weights, contexts)
        return contexts, weights, history


def _benefits(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer whose weight can be cast or reordered beforehand."""
    return is_linear(layer) and (_product(layer) != "torch" or _product_dtype(layer.weight) != layer.weight.dtype)


def _product(layer: nn.Linear) -> Literal["onednn", "panels", "torch"]:
    """What computes the product fastest with a weight that may be packed beforehand."""
    dtype = _product_dtype(layer.weight)
    if layer.weight.device.type == "cpu" and onednn_is_faster(dtype):
        return "onednn"
    return "panels" if dtype == torch.float32 and panels_are_faster(layer.weight) else "torch"


def _product_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype of products with this tensor: autocast changes float32 only, as in torch."""
    device = tensor.device.type
    is_cast = torch.is_autocast_enabled(device) and tensor.dtype == torch.float32
    return torch.get_autocast_dtype(device) if is_cast else tensor.dtype
