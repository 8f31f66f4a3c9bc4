"""Multi-head attention in training: softmax over scaled dot products, with the heads side by side.

On a CPU without AMX, the backward pass of torch's `scaled_dot_product_attention` takes twelve times as long in bf16 as
in fp32; and `MultiHead` first copies every head to a row of its own, and its context back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2seq_attn.attention import Context, History, MultiHead
from seq2seq_attn.attention.contexts.multi_head import MultiHeadSource, split_heads
from seq2seq_attn.attention.shapes import Bias, IsToken, Keys, MayRead, Query, Values
from seq2seq_attn.attention.source import check_query, check_source
from seq2seq_attn.ops import native
from seq2seq_attn.ops.attention import why_not_scaled_dot
from seq2seq_attn.ops.autograd import first_derivative_only
from seq2seq_attn.ops.form import Form, changed

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


class FusedMultiHead(Form, MultiHead):
    """`MultiHead`, computed by `multi_head` in training."""

    stands_for = MultiHead

    @classmethod
    def why_not(cls, module: MultiHead) -> str | None:
        if (reason := changed(module) or why_not_softmax(module)) is not None:
            return reason
        if module.attention.dropout:
            return "there is dropout of weights"
        return "values and keys differ in size" if module.attention.key_size != module.attention.value_size else None

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        if not torch.is_grad_enabled() or not native.has_kernels(keys):
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
        return few and readable


def _split(source: MultiHeadSource | JoinedSource) -> MultiHeadSource:
    return source.split if isinstance(source, JoinedSource) else source


def why_not_softmax(module: MultiHead) -> str | None:
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
        ctx.sizes = {
            "sentences": sentences, "steps": steps, "positions": keys.shape[1], "heads": heads, "size": width // heads,
            "causal": int(causal),
        }  # fmt: skip
        contexts = torch.empty_like(queries)
        inputs = {"queries": queries, "keys": keys, "values": values, "is_token": is_token}
        native.run("multi_head", queries.dtype, **ctx.sizes, **inputs, contexts=contexts)
        ctx.save_for_backward(queries, keys, values, is_token)
        return contexts

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, is_token = ctx.saved_tensors
        gradients = [torch.empty_like(each) for each in (queries, keys, values)]
        inputs = {"queries": queries, "keys": keys, "values": values, "is_token": is_token}
        native.run(
            "multi_head_backward", queries.dtype, **ctx.sizes, **inputs, grad_contexts=grad_contexts.contiguous(),
            grad_queries=gradients[0], grad_keys=gradients[1], grad_values=gradients[2],
        )  # fmt: skip
        return *gradients, None, None, None
