"""The best of many continuations, found without sorting them.

Reference implementation: a stable sort. The n best of a row are in those n blocks of it that have the highest maxima:
a pass that only compares, and a sort of a few blocks, in place of a sort of the vocabulary. The kernel does the same
without writing out log-softmax: a pass over the logits for the normaliser, and a pass for the best.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import unserved
from seq2seq_attn.text.vocabulary import BOS, EOS, PAD

BLOCK = 64  # tokens: a maximum over as many is one pass of the processor's widest instructions


class Continuations(NamedTuple):
    """Some continuations of the k hypotheses of each of B sentences, best first."""

    scores: Tensor  # (B, n)
    parents: Tensor  # (B, n): which of the k each continues
    tokens: Tensor  # (B, n): by which token
    ends: Tensor  # (B, k): log p(`</s>`) after each hypothesis


def best_continuations(live: Tensor, logits: Tensor, count: int, may_end: bool) -> Continuations:
    """The `count` best by live + log p(token | tokens before), or all if there are fewer.

    live (B, k) are the hypotheses' own log-probabilities in float32 or better, logits (B * k, V) those of their next
    tokens. `<pad>` and `<s>` are never produced, nor `</s>` where it may not come yet: their log p is -inf. The softmax
    runs over the whole vocabulary all the same, so the numbers are those of forced decoding. Of equals the best one is
    that of the first parent with the lowest token.
    """
    excluded = [PAD, BOS] if may_end else [PAD, BOS, EOS]
    if unserved(live, logits) is not None:
        return reference_continuations(live, logits, count, excluded)
    if native.has_kernels(logits):
        return _by_kernel(live, logits, min(count, live.shape[1] * logits.shape[1]), excluded)
    scores = F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    scores[:, excluded] = -inf
    return Continuations(*best_sums(live, scores, count), scores[:, EOS].view_as(live))


def reference_continuations(live: Tensor, logits: Tensor, count: int, excluded: list[int]) -> Continuations:
    """The reference implementation of `best_continuations`: a sort of all sums."""
    scores = F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    scores[:, excluded] = -inf
    sums = (live[:, :, None] + scores.view(*live.shape, -1)).flatten(1)
    best, order = sums.sort(dim=1, descending=True, stable=True)
    best, order = best[:, :count], order[:, :count]
    vocabulary = logits.shape[1]
    return Continuations(best, order // vocabulary, order % vocabulary, scores[:, EOS].view_as(live))


def _by_kernel(live: Tensor, logits: Tensor, count: int, excluded: list[int]) -> Continuations:
    (sentences, hypotheses), vocabulary = live.shape, logits.shape[1]
    scores, ends = live.new_empty(sentences, count), torch.empty_like(live)
    parents, tokens = live.new_empty((2, sentences, count), dtype=torch.int64)
    native.run(
        "best_continuations", logits.dtype, sentences, hypotheses, vocabulary, count, logits.contiguous(),
        live.contiguous(), EOS, len(excluded), torch.tensor(excluded), scores, parents, tokens, ends,
    )  # fmt: skip
    return Continuations(scores, parents, tokens, ends)


def best_sums(live: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best of live (B, k) + scores (B * k, V), as `Continuations` has them: scores, parents and tokens."""
    (sentences, hypotheses), vocabulary = live.shape, scores.shape[1]
    maxima = _maxima(scores).view(sentences, hypotheses, -1)
    in_row = maxima.shape[2]
    maxima = (maxima + live[:, :, None]).flatten(1)
    _, chosen = _highest(maxima, count)
    parents, blocks = chosen // in_row, chosen % in_row
    members = _members(scores.view(sentences, -1), blocks, vocabulary, parents * vocabulary)
    members = (members + live.gather(1, parents)[:, :, None]).flatten(1)
    best, order = _highest(members, min(count, hypotheses * vocabulary))
    place, within = order // BLOCK, order % BLOCK
    tokens = blocks.gather(1, place) * BLOCK + within
    return best, parents.gather(1, place), tokens.clamp(max=vocabulary - 1)


def _highest(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of each row (B, N), or all, with their places; a single one is the first among equals."""
    best, places = rows.max(dim=1, keepdim=True) if count == 1 else rows.topk(min(count, rows.shape[1]))
    return best, places


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
