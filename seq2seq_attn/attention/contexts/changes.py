"""Changes of attention weights that tell what the weights are good for (`Counterfactual`).

All keep the sum of a row, so that what changes is where the source is read, and not how much of it; and weights on
padding stay 0. Weights are (B, T, S), `is_token` (B, 1, S). What is drawn is drawn on the CPU by the generator.
"""

from __future__ import annotations

import torch
from torch import Generator

from seq2seq_attn.attention.permutation import reordered
from seq2seq_attn.attention.shapes import TokenRows, Weights


def uniform(weights: Weights, is_token: TokenRows) -> Weights:
    """Every token gets the same, as in `MeanContext`."""
    return _with_the_sum_of(weights, is_token.expand_as(weights).to(weights.dtype))


def permuted(weights: Weights, is_token: TokenRows, generator: Generator) -> Weights:
    """The tokens of a sentence change their weights at random, anew in each row (Jain & Wallace 2019)."""
    return reordered(weights, is_token, _draw(weights, generator))


def of_another_sentence(weights: Weights, is_token: TokenRows) -> Weights:
    """The row of another sentence at the same step, cut at the end of this one or continued by 0.

    Where nothing of it is left, uniform weights. There must be two sentences at least; `MultiHead` gives those of a
    sentence one after the other for its heads, so the other one is taken half a batch away.
    """
    cut = weights.roll(len(weights) // 2, dims=0) * is_token
    nothing = cut.sum(dim=-1, keepdim=True) == 0
    return _with_the_sum_of(weights, torch.where(nothing, is_token.to(cut.dtype), cut))


def without_the_most_read(weights: Weights, is_token: TokenRows) -> Weights:
    """The token with the highest weight is erased (Serrano & Smith 2019): under softmax, as if its key were masked."""
    return _with_the_sum_of(weights, weights.masked_fill(_highest(weights), 0.0))


def without_another(weights: Weights, is_token: TokenRows, generator: Generator) -> Weights:
    """A random token that is not the one with the highest weight is erased; none if there is no other."""
    others = is_token & ~_highest(weights)
    erased = others & _highest(torch.where(others, _draw(weights, generator), -1.0))
    return _with_the_sum_of(weights, weights.masked_fill(erased, 0.0))


def _with_the_sum_of(weights: Weights, rows: Weights) -> Weights:
    """The rows, stretched to the sums of the weights; a row of nothing but 0 stays."""
    total = rows.sum(dim=-1, keepdim=True)
    return rows * (weights.sum(dim=-1, keepdim=True) / total.where(total > 0, 1.0))


def _highest(rows: Weights) -> TokenRows:
    """True on one highest number of each row."""
    return torch.zeros_like(rows, dtype=torch.bool).scatter(-1, rows.argmax(dim=-1, keepdim=True), True)


def _draw(weights: Weights, generator: Generator) -> Weights:
    return torch.rand(weights.shape, generator=generator).to(weights)
