"""The n best continuations of hypotheses, without sorting the vocabulary.

Reference implementation: a stable sort. The n best of a row are in the n blocks of it with the highest maxima. So one
pass finds the maximum of every block, and only n blocks are sorted. The kernel does the same without storing the
log-softmax: one pass over the logits computes the normalizer, a second one finds the best.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.corpora.vocabulary import BOS, EOS, PAD
from seq2seq_attn.ops import native
from seq2seq_attn.ops.form import is_reference

BLOCK = 64  # tokens; a multiple of the widest vector registers


class Continuations(NamedTuple):
    """The n best continuations of the k hypotheses of each of B sentences, best first."""

    scores: Tensor  # (B, n)
    parents: Tensor  # (B, n) int64: which of the k hypotheses each continues
    tokens: Tensor  # (B, n) int64: with which token
    ends: Tensor  # (B, k): log p(`</s>`) after each hypothesis


def best_continuations(live: Tensor, logits: Tensor, count: int, may_end: bool) -> Continuations:
    """The `count` continuations with the highest live + log p(token | previous tokens), or all if there are fewer.

    live (B, k) are the log-probabilities of the hypotheses in float32 or better, logits (B * k, V) belong to their next
    tokens. `<pad>`, `<s>` and, unless `may_end`, `</s>` are excluded: their log p is -inf. The softmax still runs over
    the whole vocabulary, so that log-probabilities equal those of forced decoding. If scores tie for the first place,
    the lowest parent wins, then the lowest token.
    """
    excluded = [PAD, BOS] if may_end else [PAD, BOS, EOS]
    if is_reference():
        return reference_continuations(live, logits, count, excluded)
    fits = live.dtype == torch.float32 and logits.dim() == 2 and len(logits) == live.numel() and logits.shape[1] > EOS
    if fits and native.has_kernels(logits):  # the kernel trusts these sizes; torch says what does not fit
        return _by_kernel(live, logits, min(count, live.shape[1] * logits.shape[1]), excluded)
    scores = F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    scores[:, excluded] = -inf
    return Continuations(*best_sums(live, scores, count), scores[:, EOS].view_as(live))


def reference_continuations(live: Tensor, logits: Tensor, count: int, excluded: list[int]) -> Continuations:
    """The reference implementation of `best_continuations`: a stable sort of all sums."""
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
        "best_continuations", logits.dtype, sentences=sentences, hypotheses=hypotheses, words=vocabulary, count=count,
        logits=logits.contiguous(), live=live.contiguous(), end=EOS, exclusions=len(excluded),
        excluded=torch.tensor(excluded, device="cpu"), scores=scores, parents=parents, tokens=tokens, ends=ends,
    )  # fmt: skip
    return Continuations(scores, parents, tokens, ends)


def best_sums(live: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, parents and tokens (B, n) of the `count` best of live (B, k) + scores (B * k, V), best first."""
    (sentences, hypotheses), vocabulary = live.shape, scores.shape[1]
    maxima = _block_maxima(scores).view(sentences, hypotheses, -1)
    blocks_per_row = maxima.shape[2]
    maxima = (maxima + live[:, :, None]).flatten(1)
    _, chosen = _top(maxima, count)
    parents, blocks = chosen // blocks_per_row, chosen % blocks_per_row
    candidates = _block_scores(scores.view(sentences, -1), blocks, vocabulary, parents * vocabulary)
    candidates = (candidates + live.gather(1, parents)[:, :, None]).flatten(1)
    best, order = _top(candidates, min(count, hypotheses * vocabulary))
    block, offset = order // BLOCK, order % BLOCK
    tokens = blocks.gather(1, block) * BLOCK + offset
    return best, parents.gather(1, block), tokens.clamp(max=vocabulary - 1)


def _top(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest values of each row (B, N), or all, and their indices; with count 1, the first of equals."""
    best, indices = rows.max(dim=1, keepdim=True) if count == 1 else rows.topk(min(count, rows.shape[1]))
    return best, indices


def _block_maxima(scores: Tensor) -> Tensor:
    """The maximum of each block of tokens: (N, ⌈V / BLOCK⌉) of (N, V)."""
    rows, vocabulary = scores.shape
    whole = vocabulary // BLOCK * BLOCK
    maxima = scores[:, :whole].view(rows, -1, BLOCK).amax(dim=2)
    if whole == vocabulary:
        return maxima
    return torch.cat((maxima, scores[:, whole:].amax(dim=1, keepdim=True)), dim=1)


def _block_scores(scores: Tensor, blocks: Tensor, vocabulary: int, start: Tensor) -> Tensor:
    """The scores (B, c, BLOCK) in blocks (B, c) of the V scores that begin at `start` (B, c); -inf beyond the last."""
    tokens = blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=blocks.device)
    indices = start[:, :, None] + tokens.clamp(max=vocabulary - 1)
    in_blocks = scores.gather(1, indices.flatten(1)).view_as(tokens)
    return torch.where(tokens < vocabulary, in_blocks, -torch.inf)
