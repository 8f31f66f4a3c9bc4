"""What every stage of attention makes of the numbers it is given, kept side by side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, Softmax


class WalkStep(NamedTuple):
    """One query's way through attention; S states, values of V numbers."""

    query: Tensor  # (Q,) q
    scores: Tensor  # (S,) e_j; -inf: never read
    exponentials: Tensor | None  # (S,) exp((e_j - max e) / τ), whose shares a softmax takes; None for other normalisers
    weights: Tensor  # (S,) a_j
    terms: Tensor  # (S, V) a_j v_j
    context: Tensor  # (V,) their sum, C


class Walk(NamedTuple):
    """Attention over one source, with all that passed between its stages."""

    attention: Attention
    keys: Tensor  # (S, K) k_j
    values: Tensor  # (S, V) v_j
    prepared: Tensor  # (S, ...) what the scorer made of the keys before there was a query
    readings: tuple[WalkStep, ...]  # one for each query


@torch.no_grad()
def walk(attention: Attention, queries: Tensor, keys: Tensor, values: Tensor | None = None) -> Walk:
    """The steps of queries (T, Q), one after another, over keys (S, K) with values (S, V), the keys unless given.

    ValueError if the numbers are so large that a score or a context is not finite.
    """
    values = keys if values is None else values
    source = attention.prepare(keys[None], values[None])
    history = attention.start(source)
    readings = []
    for number, query in enumerate(queries, start=1):
        one = query[None, None]
        scores = attention.scorer.after(history[0], one, source.prepared)[0, 0]  # a step does not hand them out
        contexts, weights, history = attention(one, source, history)
        if not (scores < torch.inf).all() or not contexts.isfinite().all():  # false of NaN, too
            raise ValueError(f"query {number}: its scores or its context overflow; give smaller numbers")
        reading = WalkStep(
            query=query,
            scores=scores,
            exponentials=_exponentials(attention, scores),
            weights=weights[0, 0],
            terms=weights[0, 0, :, None] * values,
            context=contexts[0, 0],
        )
        readings.append(reading)
    return Walk(attention, keys, values, source.prepared[0], tuple(readings))


def _exponentials(attention: Attention, scores: Tensor) -> Tensor | None:
    if not isinstance(attention.normaliser, Softmax) or attention.window is not None:
        return None
    return torch.exp((scores - scores.max()) / attention.normaliser.temperature)
