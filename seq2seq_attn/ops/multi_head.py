"""Multi-head attention in training: softmax over scaled dot products, with the heads side by side.

Reference implementation: `MultiHead`, whose heads `Attention` reads by torch's `scaled_dot_product_attention`. On a CPU
without AMX, the backward pass of torch's kernel takes twelve times as long in bf16 as in fp32; and every head is first
copied to a row of its own, and its context back.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context, History, MultiHead
from seq2seq_attn.attention.attention import why_not_fused
from seq2seq_attn.attention.contexts.multi_head import MultiHeadSource, split_heads
from seq2seq_attn.attention.shapes import Bias, IsToken, Keys, MayRead, Query, Values
from seq2seq_attn.attention.source import check_query, check_source
from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, fusible, unsupported

MOST_SCORES = 1 << 16  # of a head: they stay in a core's cache; for longer ones, torch's kernel works in blocks


class JoinedSource:
    """A source with the heads side by side. What `multi_head` does not compute reads `split`."""

    def __init__(self, attention: Context, heads: int, keys: Tensor, values: Tensor, is_token: Tensor | None) -> None:
        self.attention = attention
        self.heads = heads
        self.keys = keys  # (B, S, heads * size), projected, as are the values
        self.values = values
        self.is_token = is_token  # (B, S)
        self._prepared: MultiHeadSource | None = None

    @property
    def sentences(self) -> int:
        """B."""
        return len(self.keys)

    @property
    def split(self) -> MultiHeadSource:
        """The source that `MultiHead` prepares."""
        if self._prepared is not None:
            return self._prepared
        is_token = None if self.is_token is None else self.is_token.repeat_interleave(self.heads, dim=0)
        keys, values = split_heads(self.keys, self.heads), split_heads(self.values, self.heads)
        source = MultiHeadSource(self.attention.prepare(keys, values, is_token), self.heads)
        if torch.is_grad_enabled():  # otherwise later calls would get keys and values without their gradients
            self._prepared = source
        return source

    def select(self, rows: Tensor) -> JoinedSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        is_token = None if self.is_token is None else self.is_token.index_select(0, rows)
        keys, values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        return JoinedSource(self.attention, self.heads, keys, values, is_token)


@fusible
class FusedMultiHead(MultiHead):
    """`MultiHead`, computed by `multi_head` in training."""

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        if not torch.is_grad_enabled() or why_not(self) is not None or unsupported(keys, values) is not None:
            return super().prepare(keys, values, is_token)
        check_source(self, keys, values, is_token, self.key_size, self.value_size)
        projected = self.key_layer(keys), self.value_layer(keys if values is None else values)
        return JoinedSource(self.attention, self.heads, *projected, is_token)

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
        if not is_plain or not isinstance(source, JoinedSource) or not self._is_fused(query, source, causal):
            return super().forward(
                query, _split(source), history, may_read=may_read, causal=causal, bias=bias, need_weights=need_weights
            )
        check_query(self, query, source, self.query_size)
        queries = self.query_layer(query)
        contexts = multi_head(queries, source.keys, source.values, source.is_token, self.heads, causal)
        return self.output_layer(contexts), None

    def extend(
        self, source: Any, keys: Keys, values: Values | None = None, is_token: IsToken | None = None
    ) -> MultiHeadSource:
        return super().extend(_split(source), keys, values, is_token)

    def start(self, source: Any) -> History:
        return super().start(_split(source))

    def head_weights(self, query: Query, source: Any, **options: Any) -> Tensor:
        return super().head_weights(query, _split(source), **options)

    def _is_fused(self, query: Tensor, source: JoinedSource, causal: bool) -> bool:
        sizes = self.heads, self.query_layer.out_features
        if sizes != (source.heads, source.keys.shape[2]):
            return False  # another module prepared it; the reference says so
        few = query.dim() == 3 and query.shape[1] * source.keys.shape[1] <= MOST_SCORES
        # The kernel does not check that every query has a position to read; the reference does.
        readable = not causal or (
            query.shape[1] <= source.keys.shape[1] and (source.is_token is None or bool(source.is_token[:, 0].all()))
        )
        return few and readable and why_not(self) is None and unsupported(query, source.keys, source.values) is None


def _split(source: MultiHeadSource | JoinedSource) -> MultiHeadSource:
    return source.split if isinstance(source, JoinedSource) else source


def is_multi_head(module: nn.Module) -> TypeGuard[MultiHead]:
    """Whether a module is an unmodified `MultiHead` or `FusedMultiHead`."""
    return type(module) in (MultiHead, FusedMultiHead) and changed(module) is None


def why_not(module: MultiHead) -> str | None:
    """Why `multi_head` cannot compute the contexts of this module in training; None if it can."""
    if (reason := unsupported(*module.parameters()) or changed(module) or why_not_softmax(module)) is not None:
        return reason
    if module.attention.dropout and module.training:
        return "there is dropout of weights"
    if module.attention.key_size != module.attention.value_size:
        return "values and keys differ in size"
    return None if native.has_kernels(module.key_layer.weight) else "there are no kernels"


def why_not_softmax(module: MultiHead) -> str | None:
    """Why the heads compute something else than softmax over scaled dot products; None if they compute that."""
    if module.position is not None:
        return f"the position is {type(module.position).__name__}, which acts within attention"
    if type(module.attention) is not Attention:
        return f"its attention is {type(module.attention).__name__}"
    if (reason := why_not_fused(module.attention)) is not None:
        return f"attention is not softmax over scaled dot products: {reason}"
    return None


def multi_head(
    queries: Tensor, keys: Tensor, values: Tensor, is_token: Tensor | None, heads: int, causal: bool
) -> Tensor:
    """[C^1; ...; C^n] (B, T, n * size), C^m = softmax(q^m K^m' / √size) V^m (Vaswani et al. 2017, eq. 1).

    queries (B, T, n * size), keys and values (B, S, n * size), is_token (B, S) or None. With `causal`, the queries are
    the last T of the S positions and read up to their own. RuntimeError if a second derivative is taken.
    """
    dtype = queries.dtype
    contexts: Tensor = _MultiHead.apply(  # type: ignore[no-untyped-call]
        queries, keys.to(dtype), values.to(dtype), is_token, heads, causal
    )
    return contexts


class _MultiHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, is_token: Tensor | None, heads: int, causal: bool
    ) -> Tensor:
        queries, keys, values = queries.contiguous(), keys.contiguous(), values.contiguous()
        is_token = None if is_token is None else is_token.contiguous()
        sentences, steps, width = queries.shape
        ctx.sizes = sentences, steps, keys.shape[1], heads, width // heads, int(causal)
        contexts = torch.empty_like(queries)
        native.run("multi_head", queries.dtype, *ctx.sizes, queries, keys, values, is_token, contexts)
        ctx.save_for_backward(queries, keys, values, is_token)
        return contexts

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, is_token = ctx.saved_tensors
        gradients = [torch.empty_like(each) for each in (queries, keys, values)]
        inputs = queries, keys, values, is_token, grad_contexts.contiguous()
        native.run("multi_head_backward", queries.dtype, *ctx.sizes, *inputs, *gradients)
        return *gradients, None, None, None
