"""Attention by torch's `scaled_dot_product_attention`, which does not materialize the weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Attention, Context, History, ScaledDot, Softmax, Source
from seq2seq_attn.attention.shapes import Bias, Contexts, MayRead, Query
from seq2seq_attn.attention.source import check_query, restricted
from seq2seq_attn.ops.form import Form, changed


class ScaledDotAttention(Form, Attention):
    """`Attention` with `ScaledDot` and softmax; torch chooses the kernel where no weights are needed.

    It has first derivatives only. Where a query may read no position and this is not detected, its contexts are NaN or
    0, depending on device and release.
    """

    stands_for = Attention
    any_dtype = True

    @classmethod
    def why_not(cls, module: Attention) -> str | None:
        return why_not_scaled_dot(module)

    def forward(
        self,
        query: Query,
        source: Source,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        if need_weights:
            return super().forward(query, source, history, may_read=may_read, causal=causal, bias=bias)
        check_query(self, query, source, self.query_size)
        contexts = self._contexts(query, source, history, may_read, causal, bias)
        return (contexts, None) if history is None else (contexts, None, history)

    def _contexts(
        self,
        query: Query,
        source: Source,
        history: History | None,
        may_read: Tensor | None,
        causal: bool,
        bias: Tensor | None,
    ) -> Contexts:
        is_plain = all(part is None for part in (history, source.is_token, may_read, bias))
        # is_causal replaces the mask only for equally many queries and positions: torch aligns them at the first one.
        is_causal = causal and is_plain and query.shape[1] == source.values.shape[1]
        if not is_causal:
            source = restricted(self, query, source, history, may_read, causal, bias)
        mask = source.is_token
        if source.bias is not None:
            mask = source.bias if mask is None else torch.where(mask, source.bias, -torch.inf)
            mask = mask.to(query.dtype)
        contexts: Tensor = F.scaled_dot_product_attention(
            query[:, None],
            source.prepared[:, None],
            source.values[:, None],
            attn_mask=None if mask is None else mask[:, None],
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            scale=1.0,  # the keys are prepared: they are divided by √d
        )
        return contexts.squeeze(1)


def why_not_scaled_dot(attention: Context) -> str | None:
    """Why the weights are not the softmax of scaled dot products; None if they are."""
    if type(attention) is not Attention or type(attention.scorer) is not ScaledDot:
        return "it is not attention with scaled dot products"
    if type(attention.normalizer) is not Softmax or attention.normalizer.temperature != 1:
        return "the normalizer is not softmax of temperature 1"
    if attention.window is not None:
        return "there is a window"
    return changed(attention)
