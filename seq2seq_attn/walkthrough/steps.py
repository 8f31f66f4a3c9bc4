"""Attention for one query after another, with all intermediate results."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, Softmax
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough.text import as_text


class WalkStep(NamedTuple):
    """Attention for one query; S states, values of size V."""

    query: Tensor  # (Q,) q
    scores: Tensor  # (S,) e_j; -inf for a position that is excluded
    exponentials: Tensor | None  # (S,) exp((e_j - max e) / τ), which softmax normalizes; None for other normalizers
    weights: Tensor  # (S,) a_j
    terms: Tensor  # (S, V) a_j v_j
    context: Tensor  # (V,) their sum, C


class Walk(NamedTuple):
    """Attention over one source, with all intermediate results."""

    attention: Attention
    keys: Tensor  # (S, K) k_j
    values: Tensor  # (S, V) v_j
    prepared: Tensor  # (S, ...) the scorer's `prepare(keys)`
    steps: tuple[WalkStep, ...]  # one per query
    words: tuple[str, ...] | None = None  # labels of the states

    def __repr__(self) -> str:
        return as_text(self)


@torch.no_grad()
def walk_through(
    attention: Attention, queries: Tensor, keys: Tensor, values: Tensor, words: tuple[str, ...] | None = None
) -> Walk:
    """Attention for queries (T, Q), one after another, over keys (S, K) with values (S, V).

    UserError: the numbers are so large that a score or a context is not finite.
    """
    source = attention.prepare(keys[None], values[None])
    history = attention.start(source)
    steps = []
    for number, query in enumerate(queries, start=1):
        one = query[None, None]
        scores = attention.scorer.after(history[0], one, source.prepared)[0, 0]  # `attention` does not return them
        contexts, weights, history = attention(one, source, history)
        some = (scores < torch.inf).all() and scores.max() > -torch.inf  # also false for NaN
        if not some or not contexts.isfinite().all():
            raise UserError(f"query {number}: its scores or its context overflow; give smaller numbers")
        step = WalkStep(
            query=query,
            scores=scores,
            exponentials=_exponentials(attention, scores),
            weights=weights[0, 0],
            terms=weights[0, 0, :, None] * values,
            context=contexts[0, 0],
        )
        steps.append(step)
    return Walk(attention, keys, values, source.prepared[0], tuple(steps), words)


def _exponentials(attention: Attention, scores: Tensor) -> Tensor | None:
    if not isinstance(attention.normalizer, Softmax) or attention.window is not None:
        return None
    return torch.exp((scores - scores.max()) / attention.normalizer.temperature)
