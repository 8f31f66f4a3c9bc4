"""The best of many continuations, found without sorting them.

The n best of a row lie in those n blocks of it that have the highest maxima: a pass that only compares, and a sort of
what stands in a few blocks, in place of a sort of the vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 64  # tokens: so many that a maximum is one pass of the processor's widest instructions


class Continuations(NamedTuple):
    """Some continuations of the k hypotheses of each of B sentences, best first."""

    scores: Tensor  # (B, n)
    parents: Tensor  # (B, n): which of the k each continues
    tokens: Tensor  # (B, n): by which token


def best_continuations(live: Tensor, scores: Tensor, count: int) -> Continuations:
    """The `count` best by live + scores, or all if there are not so many.

    live (B, k) are the hypotheses' own log-probabilities, scores (B * k, V) those of their next tokens.
    """
    (sentences, hypotheses), vocabulary = live.shape, scores.shape[1]
    maxima = _maxima(scores).view(sentences, hypotheses, -1)
    in_row = maxima.shape[2]
    maxima = (maxima + live[:, :, None]).flatten(1)
    chosen = maxima.topk(min(count, maxima.shape[1])).indices
    parents, blocks = chosen // in_row, chosen % in_row
    members = _members(scores.view(sentences, -1), blocks, vocabulary, parents * vocabulary)
    members = (members + live.gather(1, parents)[:, :, None]).flatten(1)
    best, order = members.topk(min(count, hypotheses * vocabulary))
    place, within = order // BLOCK, order % BLOCK
    tokens = blocks.gather(1, place) * BLOCK + within
    return Continuations(best, parents.gather(1, place), tokens.clamp(max=vocabulary - 1))


def most_probable(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The highest of each row of scores (N, V) and its token, the lowest id among equals: both (N,)."""
    blocks = _maxima(scores).max(dim=1, keepdim=True).indices
    best, within = _members(scores, blocks, scores.shape[1], torch.zeros_like(blocks)).squeeze(1).max(dim=1)
    return best, blocks.squeeze(1) * BLOCK + within


def _maxima(scores: Tensor) -> Tensor:
    """Of each block of tokens: (N, ⌈V / BLOCK⌉) of (N, V)."""
    rows, vocabulary = scores.shape
    whole = vocabulary // BLOCK * BLOCK
    maxima = scores[:, :whole].view(rows, -1, BLOCK).amax(dim=2)
    if whole == vocabulary:
        return maxima
    return torch.cat((maxima, scores[:, whole:].amax(dim=1, keepdim=True)), dim=1)


def _members(scores: Tensor, blocks: Tensor, vocabulary: int, first: Tensor) -> Tensor:
    """What stands in blocks (B, c) of the V scores from `first` (B, c) on: (B, c, BLOCK), -inf beyond the last."""
    tokens = blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=blocks.device)
    places = first[:, :, None] + tokens.clamp(max=vocabulary - 1)
    members = scores.gather(1, places.flatten(1)).view_as(tokens)
    return torch.where(tokens < vocabulary, members, -torch.inf)
