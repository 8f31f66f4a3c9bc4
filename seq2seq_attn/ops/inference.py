"""Forms for a model with constant weights, prepared for the matrix products of decoding.

A decoding step multiplies a few rows by every matrix of the decoder, so its time is mostly that of reading the
matrices from memory. From a packed matrix, oneDNN or a kernel computes the product two to four times as fast as MKL
from a row-major one; and autocast would cast every matrix again at every step. Here, each matrix is cast and packed
once. A kernel computes attention weights and contexts in one pass, and another the gates of a GRU.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, AttentionSource, History
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.ops import native
from seq2seq_attn.ops.decoders import why_not_softmax
from seq2seq_attn.ops.form import Form
from seq2seq_attn.ops.layers import onednn_is_faster, onednn_linear, panel_linear, panels, panels_are_faster, rows_of


class InferenceLinear(Form, nn.Linear):
    """A linear layer with a weight that is cast and reordered once."""

    stands_for = nn.Linear

    @classmethod
    def why_not(cls, module: nn.Linear) -> str | None:
        is_as_fast = _product(module) == "torch" and product_dtype(module.weight) == module.weight.dtype
        return "nothing is faster" if is_as_fast else None

    @torch.no_grad()
    def pack(self) -> None:
        self.dtype = product_dtype(self.weight)
        self.product = _product(self)
        self.cast_bias = None if self.bias is None else self.bias.detach().to(self.dtype)
        if self.product == "panels":
            self.packed, self.cast_bias = panels([self])
        elif self.product == "onednn":
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.to(self.dtype))
        else:
            self.packed = self.weight.detach().to(self.dtype)

    def forward(self, input: Tensor) -> Tensor:
        input = input.to(self.dtype)
        if self.product == "onednn":
            return onednn_linear(input, self.packed, self.cast_bias)
        if self.product == "panels" and self.cast_bias is not None:
            return panel_linear(input, self.packed, self.cast_bias, self.out_features)
        return F.linear(input, self.packed, self.cast_bias)

    def select(self, rows: Tensor) -> nn.Module:
        """The layer with only the outputs `rows` (M,), in this order."""
        return self.of(rows_of(self, rows), {})


class InferenceAttention(Form, Attention):
    """`Attention` whose weights and contexts a kernel computes; only if the weights are a softmax of current scores."""

    stands_for = Attention

    @classmethod
    def why_not(cls, module: Attention) -> str | None:
        return why_not_softmax(module)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> AttentionSource:
        source = super().prepare(keys, values, is_token)
        return source._replace(values=source.values.to(product_dtype(source.values)).contiguous())

    def _step(self, query: Query, source: AttentionSource, history: History) -> tuple[Contexts, Weights, History]:
        values = source.values
        (sentences, length, width), queries = values.shape, query.shape[1]
        # The kernel reads one row of the mask per sentence.
        mask = source.is_token
        if source.bias is not None or (mask is not None and mask.shape[:2] != (sentences, 1)):
            return super()._step(query, source, history)
        scores = self.scorer(query, source.prepared)
        fits = scores.shape == (sentences, queries, length)  # if not, the reference refuses them
        if not fits or scores.dtype != values.dtype or not native.has_kernels(scores):
            return super()._step(query, source, history)
        weights, contexts = torch.empty_like(scores), values.new_empty(sentences, queries, width)
        native.run(
            "attention_read", scores.dtype, sentences=sentences, queries=queries, length=length, width=width,
            scores=scores.contiguous(), is_token=None if mask is None else mask.contiguous(), values=values,
            weights=weights, contexts=contexts,
        )  # fmt: skip
        return contexts, weights, history


class InferenceGRUCell(Form, GRUCell):
    """`GRUCell` whose update a kernel computes."""

    stands_for = GRUCell

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        rows, size = state.shape
        fits = inputs.shape == recurrent.shape == (rows, 3 * size) and inputs.dtype == recurrent.dtype == state.dtype
        if not fits or not native.has_kernels(state):
            return GRUCell.update(inputs, recurrent, state)  # torch broadcasts, or says what does not fit
        gates, candidates, states = state.new_empty(rows, 2 * size), torch.empty_like(state), torch.empty_like(state)
        native.run(
            "gru_forward", state.dtype, rows=rows, size=size, x=inputs.contiguous(), x_stride=3 * size,
            u=recurrent.contiguous(), u_stride=3 * size, previous=state.contiguous(), gates=gates,
            candidates=candidates, states=states,
        )  # fmt: skip
        return states


def _product(layer: nn.Linear) -> Literal["onednn", "panels", "torch"]:
    """What computes the product fastest with a weight that may be packed beforehand."""
    dtype = product_dtype(layer.weight)
    if layer.weight.device.type == "cpu" and onednn_is_faster(dtype):
        return "onednn"
    return "panels" if dtype == torch.float32 and panels_are_faster(layer.weight) else "torch"


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype of products with this tensor: autocast changes float32 only, as in torch."""
    device = tensor.device.type
    is_cast = torch.is_autocast_enabled(device) and tensor.dtype == torch.float32
    return torch.get_autocast_dtype(device) if is_cast else tensor.dtype
