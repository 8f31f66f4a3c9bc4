"""Scorers that need less memory than their equations, and a step of attention with its backward pass.

Reference implementations: `forward` of `Additive`, `Concat` and `NegativeSquaredDistance`, and `Attention` with an
additive scorer or a dot product and `Softmax`. The largest tensor of these equations has a vector for every pair of a
query and a key, such as the hidden layer tanh(q + k): (B, T, S, A) numbers. The fused forms keep it in the cache or in
registers, or do not compute it at all.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Additive, Concat, NegativeSquaredDistance
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores
from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import first_derivative_only, fusible, unsupported

CACHE_NUMBERS = 1 << 18  # float32 numbers in 1 MB, which fits a core's cache


@fusible
class FusedAdditive(Additive, registered=False):
    """`Additive`, computed by `fused_scores`."""

    @property
    def query_weight(self) -> Tensor:
        """W (A, query_size)."""
        return self.query_layer.weight

    def prepare(self, keys: Keys) -> Prepared:
        return _to_full_precision(super().prepare(keys))

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        if unsupported(query, prepared, self.v) is not None:
            return super().forward(query, prepared)
        return fused_scores(self.query_layer(query), prepared, self.v)


@fusible
class FusedConcat(Concat, registered=False):
    """`Concat`, computed by `fused_scores`."""

    @property
    def query_weight(self) -> Tensor:
        """W_q (A, query_size)."""
        return self.layer.weight[:, : self.query_size]

    def prepare(self, keys: Keys) -> Prepared:
        return _to_full_precision(super().prepare(keys))

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        if unsupported(query, prepared, self.v) is not None:
            return super().forward(query, prepared)
        return fused_scores(F.linear(query, self.query_weight), prepared, self.v)


@fusible
class FusedNegativeSquaredDistance(NegativeSquaredDistance, registered=False):
    """`NegativeSquaredDistance`, computed by one product: -|q - k|² = 2 q · k - |q|² - |k|².

    In float32, since the difference of large numbers cancels: in bfloat16 only rounding errors would remain.
    """

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        if unsupported(query, prepared) is not None:
            return super().forward(query, prepared)
        with torch.autocast(query.device.type, enabled=False):
            queries, keys = query.float(), prepared.float()
            squares = (queries**2).sum(-1)[:, :, None] + (keys**2).sum(-1)[:, None]
            scale = 1 / self.temperature
            scores = torch.baddbmm(squares, queries, keys.transpose(1, 2), beta=-scale, alpha=2 * scale)
        return scores.to(query.dtype)


def fused_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """v · tanh(q + k) (B, T, S) of projected queries q (B, T, A), projected keys k (B, S, A) and v (A,).

    Without a kernel computed as 2 v · σ(2 (q + k)) - Σ v, which is equal and takes a fifth of the time on a CPU, where
    tanh is the most expensive elementwise operation. In float32, which is no slower than bfloat16 here.
    """
    keys, v = keys.float(), v.float()
    sizes_agree = queries.shape[0] == keys.shape[0] and queries.shape[2] == keys.shape[2] == v.shape[0]
    if sizes_agree and native.has_kernels(queries):  # torch broadcasts, or says what does not fit
        if not torch.is_grad_enabled():
            return _kernel_scores(queries.contiguous(), keys.contiguous(), v.contiguous())
        scores: Tensor = _AdditiveScores.apply(queries, keys, v)  # type: ignore[no-untyped-call]
        return scores
    with torch.autocast(queries.device.type, enabled=False):
        doubled = 2 * queries.float()[:, :, None]
        chunks = _chunks_in_cache(doubled, keys[:, None])
        computed = [torch.matmul(torch.add(q, k, alpha=2).sigmoid_(), 2 * v) for q, k in chunks]
        return (torch.cat(computed) - v.sum()).to(queries.dtype)


class _AdditiveScores(torch.autograd.Function):
    """`_kernel_scores` as one autograd node, which saves nothing but its inputs."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        inputs = queries.contiguous(), keys.contiguous(), v.contiguous()
        ctx.save_for_backward(*inputs)
        return _kernel_scores(*inputs)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        grad_queries, grad_keys = torch.empty_like(queries), torch.zeros_like(keys)
        grad_v = v.new_zeros(len(queries), len(v))
        sizes = *queries.shape[:2], *keys.shape[1:]
        inputs = queries, keys, v, grad_scores.contiguous()
        native.run("additive_scores_backward", queries.dtype, *sizes, *inputs, grad_queries, grad_keys, grad_v)
        return grad_queries, grad_keys, grad_v.sum(dim=0)


def _kernel_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
    sizes = *queries.shape[:2], *keys.shape[1:]
    native.run("additive_scores", queries.dtype, *sizes, queries, keys, v, scores)
    return scores


def _chunks_in_cache(queries: Tensor, keys: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Queries (B, T, 1, A), keys (B, 1, S, A); without gradients on a CPU, split into sentences that fit the cache."""
    if queries.device.type != "cpu" or torch.is_grad_enabled():
        return [(queries, keys)]
    numbers_per_sentence = queries.shape[1] * keys.shape[2] * keys.shape[3]
    sentences = max(1, CACHE_NUMBERS // max(1, numbers_per_sentence))
    return list(zip(torch.split(queries, sentences), torch.split(keys, sentences), strict=True))


def _to_full_precision(prepared: Prepared) -> Prepared:
    """Prepared keys in float32, so that they are not cast at every step."""
    return prepared.float() if unsupported(prepared) is None else prepared


def read_forward(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    is_token: Tensor | None,
    values: Tensor,
    weights: Tensor,
    context: Tensor,
) -> None:
    """A step of attention outside autograd, with one query per sentence; scores are additive, or dot products.

    Writes a = softmax(v · tanh(q + k)), or softmax(q · k) if v is None, to `weights` (B, S), and Σ_s a_s value_s to
    `context` (B, V). query is q (B, A), keys are k (B, S, A), v (A,), is_token (B, 1, S), values (B, S, V). Keys and v
    have the dtype of the scores. All tensors except the queries are contiguous.
    """
    if _fit_kernels(query, keys):
        if native.has_kernels(query):
            sizes = *keys.shape, values.shape[2]
            source = keys, v, is_token, values
            native.run("read_forward", query.dtype, *sizes, query, query.stride(0), *source, weights, context)
            return
        if (kernels := _gpu_kernels(query, keys)) is not None:
            kernels.read_forward(query, keys, v, is_token, values, weights, context)
            return
    if v is None:
        scores = torch.bmm(keys, query.to(keys.dtype)[:, :, None]).squeeze(2)
    else:
        # v · tanh(x) = 2 v · σ(2 x) - Σ v, as in `fused_scores`
        hidden = torch.add(keys, query[:, None]).mul_(2).sigmoid_()
        scores = torch.matmul(hidden, 2 * v) - v.sum()
    if is_token is not None:
        scores = torch.where(is_token.squeeze(1), scores, -torch.inf)
    weights.copy_(torch.softmax(scores, dim=-1))
    torch.bmm(weights[:, None], values, out=context[:, None])


def read_backward(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    values: Tensor,
    weights: Tensor,
    grad_context: Tensor,
    grad_weights: Tensor | None,
    grad_query: Tensor,
    grad_keys: Tensor,
    grad_v: Tensor | None,
) -> None:
    """Backward pass of `read_forward`; recomputes the hidden layer. Writes dL/dq to `grad_query` (B, A).

    Adds dL/dk to `grad_keys` (B, S, A) and each sentence's contribution to dL/dv to `grad_v` (B, A), both in the dtype
    of the scores. `values_backward` computes the gradient of the values for all steps at once.
    """
    if _fit_kernels(query, keys):
        if native.has_kernels(query):
            sizes = *keys.shape, values.shape[2]
            source = keys, v, values, weights, grad_context, grad_weights
            written = grad_query, grad_query.stride(0), grad_keys, grad_v
            native.run("read_backward", query.dtype, *sizes, query, query.stride(0), *source, *written)
            return
        if (kernels := _gpu_kernels(query, keys)) is not None:
            kernels.read_backward(
                query, keys, v, values, weights, grad_context, grad_weights, grad_query, grad_keys, grad_v
            )
            return
    total_grad_weights = torch.bmm(grad_context[:, None], values.transpose(1, 2)).squeeze(1)
    if grad_weights is not None:
        total_grad_weights += grad_weights
    weighted = (total_grad_weights * weights).to(keys.dtype)
    grad_scores = torch.addcmul(weighted, weights.to(keys.dtype), weighted.sum(dim=1, keepdim=True), value=-1)[:, None]
    if v is None or grad_v is None:
        grad_query.copy_(torch.bmm(grad_scores, keys).squeeze(1))
        grad_keys.addcmul_(grad_scores.transpose(1, 2), query[:, None])
        return
    # With σ = σ(2 (q + k)): tanh(q + k) = 2 σ - 1, and its derivative is 4 σ (1 - σ).
    hidden = torch.add(keys, query[:, None]).mul_(2).sigmoid_()
    grad_v += torch.bmm(grad_scores, hidden).mul_(2).squeeze(1) - grad_scores.sum(dim=2)
    slopes = hidden.addcmul_(hidden, hidden, value=-1).mul_(4 * v)
    grad_query.copy_(torch.bmm(grad_scores, slopes).squeeze(1))
    grad_keys.addcmul_(grad_scores.transpose(1, 2), slopes)


def values_backward(weights: Tensor, grad_contexts: Tensor) -> Tensor:
    """dL/dvalues = Σ_t a_tbs dL/dC_tb (B, S, V), from the weights a (T, B, S) and dL/dC (T, B, V) of all steps."""
    (steps, sentences, length), width = weights.shape, grad_contexts.shape[2]
    if not native.has_kernels(weights):
        return torch.bmm(weights.permute(1, 2, 0), grad_contexts.transpose(0, 1))
    grad_values = weights.new_empty(sentences, length, width)
    native.run("values_backward", weights.dtype, steps, sentences, length, width, weights, grad_contexts, grad_values)
    return grad_values


def _fit_kernels(query: Tensor, keys: Tensor) -> bool:
    return keys.dtype == torch.float32 and query.stride(1) == 1


def _gpu_kernels(query: Tensor, keys: Tensor) -> ModuleType | None:
    return native.gpu_kernels(query) if keys.shape[1] <= native.LONGEST_SOURCE_ON_GPU else None
