"""Scorers that need less memory than their equations, and a step of attention with its backward pass.

The largest tensor of these equations has a vector for every pair of a query and a key, such as the hidden layer
tanh(q + k): (B, T, S, A) numbers. The fused forms keep it in registers, or do not compute it at all.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Additive, Concat, NegativeSquaredDistance
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores
from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import apply
from seq2seq_attn.ops.form import Form


class _ByKernel(Form):
    """Additive scores by a kernel. Keys are prepared in float32, so that they are not cast at every step."""

    def prepare(self, keys: Keys) -> Prepared:
        prepared: Tensor = super().prepare(keys)  # type: ignore[misc]
        return prepared.float()

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        scorer: Any = self
        fits = query.shape[0] == prepared.shape[0] and prepared.shape[2] == scorer.v.shape[0]
        if fits and native.has_kernels(query):
            return additive_scores(scorer.queries(query), prepared, scorer.v)
        scores: Tensor = super().forward(query, prepared)  # type: ignore[misc]  # it broadcasts, or says what does not fit
        return scores


class FusedAdditive(_ByKernel, Additive, registered=False):
    """`Additive` by a kernel."""

    stands_for = Additive

    def queries(self, query: Query) -> Tensor:
        """W q."""
        queries: Tensor = self.query_layer(query)
        return queries


class FusedConcat(_ByKernel, Concat, registered=False):
    """`Concat` by a kernel."""

    stands_for = Concat

    def queries(self, query: Query) -> Tensor:
        """W_q q."""
        return F.linear(query, self.layer.weight[:, : self.query_size])


class FusedNegativeSquaredDistance(Form, NegativeSquaredDistance, registered=False):
    """`NegativeSquaredDistance`, computed by one product: -|q - k|² = 2 q · k - |q|² - |k|².

    In float32 at least, since the difference of large numbers cancels: in bfloat16 only rounding errors would remain.
    """

    stands_for = NegativeSquaredDistance

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        with torch.autocast(query.device.type, enabled=False):
            exact = torch.promote_types(query.dtype, torch.float32)
            queries, keys = query.to(exact), prepared.to(exact)
            squares = (queries**2).sum(-1)[:, :, None] + (keys**2).sum(-1)[:, None]
            scale = 1 / self.temperature
            scores = torch.baddbmm(squares, queries, keys.transpose(1, 2), beta=-scale, alpha=2 * scale)
        return scores.to(query.dtype)


def additive_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """v · tanh(q + k) (B, T, S) by a kernel, of projected queries q (B, T, A), keys k (B, S, A), and v (A,)."""
    scores: Tensor = apply(_AdditiveScores(queries.contiguous(), keys.float().contiguous(), v.float().contiguous()))
    return scores


class _AdditiveScores(NamedTuple):
    """What `additive_scores` needs in both passes, or the gradients of it."""

    queries: Tensor
    keys: Tensor
    v: Tensor

    def forward(self) -> tuple[Tensor, _AdditiveScores]:
        queries, keys, v = self
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        sizes = _sizes(queries, keys)
        native.run("additive_scores", queries.dtype, **sizes, query=queries, keys=keys, v=v, scores=scores)
        return scores, self

    def backward(self, *gradients: Tensor | None) -> _AdditiveScores:
        queries, keys, v = self
        grad_query, grad_keys = torch.empty_like(queries), torch.zeros_like(keys)
        grad_v = v.new_zeros(len(queries), len(v))
        native.run(
            "additive_scores_backward", queries.dtype, **_sizes(queries, keys), query=queries, keys=keys, v=v,
            grad_scores=cast(Tensor, gradients[0]).contiguous(), grad_query=grad_query, grad_keys=grad_keys,
            grad_v=grad_v,
        )  # fmt: skip
        return _AdditiveScores(grad_query, grad_keys, grad_v.sum(dim=0))


def _sizes(queries: Tensor, keys: Tensor) -> dict[str, int]:
    (sentences, count, size), length = queries.shape, keys.shape[1]
    return {"sentences": sentences, "queries": count, "length": length, "size": size}


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
            native.run(
                "read_forward", query.dtype, **_sizes_of_source(keys, values), query=query,
                query_stride=query.stride(0), keys=keys, v=v, is_token=is_token, values=values, weights=weights,
                contexts=context,
            )  # fmt: skip
            return
        if (kernels := _gpu_kernels(query, keys)) is not None:
            kernels.read_forward(query, keys, v, is_token, values, weights, context)
            return
    scores = _scores_of_one(query, keys, v)
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
            native.run(
                "read_backward", query.dtype, **_sizes_of_source(keys, values), query=query,
                query_stride=query.stride(0), keys=keys, v=v, values=values, weights=weights,
                grad_contexts=grad_context, grad_weights=grad_weights, grad_query=grad_query,
                grad_query_stride=grad_query.stride(0), grad_keys=grad_keys, grad_v=grad_v,
            )  # fmt: skip
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
    grad_scores = torch.addcmul(weighted, weights.to(keys.dtype), weighted.sum(dim=1, keepdim=True), value=-1)
    with torch.enable_grad():
        q, k = (each.detach().requires_grad_() for each in (query, keys))
        of_sentence = None if v is None else v.detach().expand(len(keys), -1).requires_grad_()
        inputs = [each for each in (q, k, of_sentence) if each is not None]
        gradients = torch.autograd.grad(_scores_of_one(q, k, of_sentence), inputs, grad_scores)
    grad_query.copy_(gradients[0])
    grad_keys += gradients[1]
    if grad_v is not None:
        grad_v += gradients[2]


def _scores_of_one(query: Tensor, keys: Tensor, v: Tensor | None) -> Tensor:
    """v · tanh(q + k), or q · k (B, S) of one query per sentence; v is that of all of them (A,), or of each (B, A)."""
    if v is None:
        return torch.matmul(keys, query.to(keys.dtype)[:, :, None]).squeeze(2)
    return torch.matmul(torch.tanh(query[:, None] + keys), v[..., None]).squeeze(2)


def values_backward(weights: Tensor, grad_contexts: Tensor) -> Tensor:
    """dL/dvalues = Σ_t a_tbs dL/dC_tb (B, S, V), from the weights a (T, B, S) and dL/dC (T, B, V) of all steps."""
    (steps, sentences, length), width = weights.shape, grad_contexts.shape[2]
    if not native.has_kernels(weights):
        return torch.bmm(weights.permute(1, 2, 0), grad_contexts.transpose(0, 1))
    grad_values = weights.new_empty(sentences, length, width)
    native.run(
        "values_backward", weights.dtype, steps=steps, sentences=sentences, length=length, width=width, weights=weights,
        grad_contexts=grad_contexts, grad_values=grad_values,
    )  # fmt: skip
    return grad_values


def _sizes_of_source(keys: Tensor, values: Tensor) -> dict[str, int]:
    (sentences, length, size), width = keys.shape, values.shape[2]
    return {"sentences": sentences, "length": length, "size": size, "width": width}


def _fit_kernels(query: Tensor, keys: Tensor) -> bool:
    return keys.dtype == torch.float32 and query.stride(1) == 1


def _gpu_kernels(query: Tensor, keys: Tensor) -> ModuleType | None:
    return native.gpu_kernels(query) if keys.shape[1] <= native.LONGEST_SOURCE_ON_GPU else None
