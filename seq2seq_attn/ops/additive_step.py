"""Reading a source with additive scores, one query a sentence, outside of the graph: there and back.

The plain statement is `Attention` with the scorer `Additive`. The hidden layer of the scores, (B, S, A) numbers a step,
is the largest there is; the kernels never store it, and on the way back it is computed again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.ops import native


def read_forward(
    query: Tensor, keys: Tensor, v: Tensor, is_token: Tensor | None, values: Tensor, weights: Tensor, context: Tensor
) -> None:
    """Writes a = softmax(v · tanh(q + k)) (B, S) and Σ_s a_s value_s (B, V).

    q = W query (B, A), k = U key + b (B, S, A) and v (A,), the latter two in the precision of the scores; is_token
    (B, 1, S), values (B, S, V). All but the queries lie row after row, without gaps.
    """
    if _native(query, keys):
        sizes = *keys.shape, values.shape[2]
        source = keys, v, is_token, values
        native.run("additive_forward", query.dtype, *sizes, query, query.stride(0), *source, weights, context)
        return
    # v · tanh(x) = 2 v · σ(2 x) - Σ v: of the two, σ takes a fifth of the time on a processor.
    hidden = torch.add(keys, query[:, None]).mul_(2).sigmoid_()
    scores = torch.matmul(hidden, 2 * v) - v.sum()
    if is_token is not None:
        scores = torch.where(is_token.squeeze(1), scores, -torch.inf)
    weights.copy_(torch.softmax(scores, dim=-1))
    torch.bmm(weights[:, None], values, out=context[:, None])


def read_backward(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    values: Tensor,
    weights: Tensor,
    of_context: Tensor,
    of_weights: Tensor | None,
    of_query: Tensor,
    of_keys: Tensor,
    of_v: Tensor,
) -> None:
    """The way back of `read_forward`: dL/dq is written to of_query (B, A).

    dL/dk is added to of_keys (B, S, A), and each sentence's share of dL/dv to of_v (B, A), both in the precision of the
    scores. The gradient of the values is summed over all steps at once, by `values_backward`.
    """
    if _native(query, keys):
        sizes = *keys.shape, values.shape[2]
        source = keys, v, values, weights, of_context, of_weights
        written = of_query, of_query.stride(0), of_keys, of_v
        native.run("additive_backward", query.dtype, *sizes, query, query.stride(0), *source, *written)
        return
    gradient = torch.bmm(of_context[:, None], values.transpose(1, 2)).squeeze(1)
    if of_weights is not None:
        gradient += of_weights
    weighted = (gradient * weights).to(keys.dtype)
    of_scores = torch.addcmul(weighted, weights.to(keys.dtype), weighted.sum(dim=1, keepdim=True), value=-1)[:, None]
    # tanh = 2 σ - 1 and tanh' = 4 σ (1 - σ), both of 2 (q + k)
    hidden = torch.add(keys, query[:, None]).mul_(2).sigmoid_()
    of_v += torch.bmm(of_scores, hidden).mul_(2).squeeze(1) - of_scores.sum(dim=2)
    slopes = hidden.addcmul_(hidden, hidden, value=-1).mul_(4 * v)
    of_query.copy_(torch.bmm(of_scores, slopes).squeeze(1))
    of_keys.addcmul_(of_scores.transpose(1, 2), slopes)


def values_backward(weights: Tensor, of_contexts: Tensor) -> Tensor:
    """Σ_t a_tbs dL/dC_tb (B, S, V) of all steps' weights (T, B, S) and gradients of their contexts (T, B, V)."""
    (steps, sentences, length), width = weights.shape, of_contexts.shape[2]
    if not native.has_kernels(weights):
        return torch.bmm(weights.permute(1, 2, 0), of_contexts.transpose(0, 1))
    of_values = weights.new_empty(sentences, length, width)
    native.run("values_backward", weights.dtype, steps, sentences, length, width, weights, of_contexts, of_values)
    return of_values


def _native(query: Tensor, keys: Tensor) -> bool:
    return keys.dtype == torch.float32 and query.stride(1) == 1 and native.has_kernels(query)
