"""Softmax attention over scaled dot products: with one head or several, whose weights are not materialized."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import (
    Attention,
    AttentionSource,
    Context,
    History,
    MultiHead,
    MultiHeadSource,
    ScaledDot,
    Softmax,
)
from seq2seq_attn.attention.checks import check_query, check_source
from seq2seq_attn.attention.contexts.multi_head import split_heads
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values
from seq2seq_attn.attention.source import restricted
from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import apply
from seq2seq_attn.ops.form import Form, changed

MOST_SCORES = 1 << 16  # of a head: they stay in a core's cache; for longer ones, torch's kernel works in blocks


class ScaledDotAttention(Form, Attention):
    """`Attention` by torch's `scaled_dot_product_attention` where no weights are needed.

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
        source: AttentionSource,
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
        source: AttentionSource,
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


class JoinedSource(MultiHeadSource):
    """A source with the heads side by side; they are split when something else than the kernel reads it."""

    keys: Tensor  # (B, S, heads * size), projected, as are the values
    values: Tensor
    is_token: Tensor | None  # (B, S)
    _attention: Context
    _of_heads: Any

    @classmethod
    def of(cls, attention: Context, heads: int, keys: Tensor, values: Tensor, is_token: Tensor | None) -> JoinedSource:
        """The source of such keys and values, whose heads have this attention."""
        source = cls(None, heads)
        source._attention, source._of_heads = attention, None
        source.keys, source.values, source.is_token = keys, values, is_token
        return source

    @property
    def sentences(self) -> int:
        """B."""
        return len(self.keys)

    @property
    def of_heads(self) -> Any:
        """The source of the heads' attention, with B * heads sentences."""
        if self._of_heads is not None:
            return self._of_heads
        is_token = None if self.is_token is None else self.is_token.repeat_interleave(self.heads, dim=0)
        keys, values = split_heads(self.keys, self.heads), split_heads(self.values, self.heads)
        of_heads = self._attention.prepare(keys, values, is_token)
        if torch.is_grad_enabled():  # otherwise later calls would get keys and values without their gradients
            self._of_heads = of_heads
        return of_heads

    def select(self, rows: Tensor) -> MultiHeadSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        return MultiHeadSource(self.of_heads, self.heads).select(rows)

    def _replace(self, *, of_heads: Any) -> MultiHeadSource:  # type: ignore[override]
        return MultiHeadSource(of_heads, self.heads)


class FusedMultiHead(Form, MultiHead):
    """`MultiHead`, computed by `multi_head` in training.

    On a CPU without AMX, the backward pass of torch's `scaled_dot_product_attention` takes twelve times as long in bf16
    as in fp32; and `MultiHead` first copies every head to a row of its own, and its context back.
    """

    stands_for = MultiHead

    @classmethod
    def why_not(cls, module: MultiHead) -> str | None:
        if (reason := changed(module) or why_not_scaled_dot_heads(module)) is not None:
            return reason
        if module.attention.dropout:
            return "there is dropout of weights"
        return "values and keys differ in size" if module.attention.key_size != module.attention.value_size else None

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        if not torch.is_grad_enabled() or not native.has_kernels(keys):
            return super().prepare(keys, values, is_token)
        check_source(self, keys, values, is_token, self.key_size, self.value_size)
        projected = self.key_layer(keys), self.value_layer(keys if values is None else values)
        return JoinedSource.of(self.attention, self.heads, *projected, is_token)

    def forward(
        self,
        query: Query,
        source: Any,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        is_plain = history is None and may_read is None and bias is None and not need_weights
        if not is_plain or not self._has_kernel(query, source, causal):
            return super().forward(
                query, source, history, may_read=may_read, causal=causal, bias=bias, need_weights=need_weights
            )
        check_query(self, query, source, self.query_size)
        queries = self.query_layer(query)
        contexts = multi_head(queries, source.keys, source.values, source.is_token, self.heads, causal)
        return self.output_layer(contexts), None

    def _has_kernel(self, query: Tensor, source: Any, causal: bool) -> bool:
        if not isinstance(source, JoinedSource) or query.dim() != 3:
            return False
        # The kernel does not check sizes, nor that every query has a position to read; the reference does.
        fits = (self.heads, self.query_layer.out_features) == (source.heads, source.keys.shape[2])
        steps, positions = query.shape[1], source.keys.shape[1]
        is_readable = not causal or (
            steps <= positions and (source.is_token is None or bool(source.is_token[:, 0].all()))
        )
        return fits and is_readable and steps * positions <= MOST_SCORES


def why_not_scaled_dot_heads(module: MultiHead) -> str | None:
    """Why the heads compute something else than softmax over scaled dot products; None if they compute that."""
    if module.position is not None:
        return f"the position is {type(module.position).__name__}, which acts within attention"
    if (reason := why_not_scaled_dot(module.attention)) is not None:
        return f"attention is not softmax over scaled dot products: {reason}"
    return None


def multi_head(
    queries: Tensor, keys: Tensor, values: Tensor, is_token: Tensor | None, heads: int, causal: bool
) -> Tensor:
    """[C^1; ...; C^n] (B, T, n * size), C^m = softmax(q^m K^m' / √size) V^m (Vaswani et al. 2017, eq. 1).

    queries (B, T, n * size), keys and values (B, S, n * size), is_token (B, S) or None. With `causal`, the queries are
    the last T of the S positions and read up to their own. RuntimeError if a second derivative is taken.
    """
    mask = None if is_token is None else is_token.contiguous()
    queries, keys, values = (each.to(queries.dtype).contiguous() for each in (queries, keys, values))
    contexts: Tensor = apply(_MultiHead(queries, keys, values, mask, heads, causal))
    return contexts


class _MultiHead(NamedTuple):
    """What `multi_head` needs in both passes, or the gradients of it."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    is_token: Any
    heads: int
    causal: bool

    def forward(self) -> tuple[Tensor, _MultiHead]:
        contexts = torch.empty_like(self.queries)
        native.run("multi_head", self.queries.dtype, **self._arguments(), contexts=contexts)
        return contexts, self

    def backward(self, *gradients: Tensor | None) -> _MultiHead:
        queries, keys, values = (torch.empty_like(each) for each in (self.queries, self.keys, self.values))
        found = self._replace(queries=queries, keys=keys, values=values, is_token=None)
        native.run(
            "multi_head_backward", self.queries.dtype, **self._arguments(),
            grad_contexts=cast(Tensor, gradients[0]).contiguous(), grad_queries=found.queries, grad_keys=found.keys,
            grad_values=found.values,
        )  # fmt: skip
        return found

    def _arguments(self) -> dict[str, Any]:
        (sentences, steps, width), positions = self.queries.shape, self.keys.shape[1]
        sizes = {"sentences": sentences, "steps": steps, "positions": positions, "size": width // self.heads}
        return self._asdict() | sizes | {"causal": int(self.causal)}
