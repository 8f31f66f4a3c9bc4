"""A model whose weights change no more, laid out for the products of decoding.

A step of decoding multiplies a few rows with every matrix of the decoder, so that fetching the matrix is most of the
work. oneDNN reads one that lies in the order in which its kernel wants it two to four times as fast as MKL reads rows
as they stand, and autocast casts every matrix anew at every step. Both are done here once. What attention reads is
summed by kernels that store nothing on the way.
"""

from __future__ import annotations

import copy
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, History, Source
from seq2seq_attn.attention.scorers.energy import Energy
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Prepared, Query, Scores, Values, Weights
from seq2seq_attn.ops import native
from seq2seq_attn.ops.int8 import Int8Linear
from seq2seq_attn.ops.linear import by_onednn, is_linear, onednn_is_faster
from seq2seq_attn.ops.replace import Model, exchanged


def for_inference(model: Model) -> Model:
    """The same model for inference alone, with the weights as they are now; itself where nothing is to be gained.

    Its linear layers compute in the precision of this moment: autocast's, if it is on, or that of the weights. Beside
    what was laid out for them it shares all weights with `model`; it stays on this device, and hooks on the parts that
    are exchanged do not come along.
    """
    parts: dict[nn.Module, nn.Module] = {layer: InferenceLinear(layer) for layer in model.modules() if _gains(layer)}
    if native.has_kernels(next(model.parameters(), torch.empty(0))):
        parts |= {energy: InferenceEnergy(energy) for energy in model.modules() if type(energy) is Energy}
        attentions = [part for part in model.modules() if type(part) is Attention and part.is_softmax_alone]
        parts |= {attention: InferenceAttention(exchanged(attention, parts)) for attention in attentions}
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
        self.dtype = _computed_in(layer.weight)
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
    """The same scores, summed by a kernel; with a share of the pairs' own, or in another precision, the plain way."""

    def __init__(self, energy: Energy) -> None:
        nn.Module.__init__(self)
        self.v = energy.v

    def forward(self, queries: Query, prepared: Prepared, pairs: Tensor | None = None) -> Scores:
        if pairs is not None or prepared.dtype != torch.float32 or not native.has_kernels(queries):
            return super().forward(queries, prepared, pairs)
        sentences, steps, size = queries.shape
        scores = queries.new_empty(sentences, steps, prepared.shape[1])
        arguments = queries.contiguous(), prepared.contiguous(), self.v.detach(), scores
        native.run("additive_scores", queries.dtype, sentences, steps, prepared.shape[1], size, *arguments)
        return scores


class InferenceAttention(Attention):
    """The same weights and contexts, by a kernel, where the weights are a softmax of the scores of this step alone."""

    def __init__(self, attention: Attention) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(attention.__dict__)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Source:
        source = super().prepare(keys, values, is_token)
        return source._replace(values=source.values.to(_computed_in(source.values)).contiguous())

    def step(self, query: Query, source: Source, history: History) -> tuple[Contexts, Weights, History]:
        values = source.values
        scores = self.scorer(query, source.prepared)
        if scores.dtype != values.dtype or not native.has_kernels(scores):
            return super().step(query, source, history)
        (sentences, queries, length), width = scores.shape, values.shape[2]
        weights, contexts = torch.empty_like(scores), values.new_empty(sentences, queries, width)
        read = scores.contiguous(), source.is_token, values
        native.run("attention_read", scores.dtype, sentences, queries, length, width, *read, weights, contexts)
        return contexts, weights, history


def _gains(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer that is to be cast or laid out otherwise."""
    return is_linear(layer) and (_by_onednn(layer) or _computed_in(layer.weight) != layer.weight.dtype)


def _by_onednn(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and onednn_is_faster(_computed_in(layer.weight))


def _computed_in(tensor: Tensor) -> torch.dtype:
    """The precision of a product with this tensor: as in torch, autocast changes float32 alone."""
    device = tensor.device.type
    casts = torch.is_autocast_enabled(device) and tensor.dtype == torch.float32
    return torch.get_autocast_dtype(device) if casts else tensor.dtype
