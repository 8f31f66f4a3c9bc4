"""The n best continuations of hypotheses.

The kernel does not store the log-softmax: one pass over the logits computes the normalizer, another finds the best.
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
    the whole vocabulary, so that log-probabilities equal those of forced decoding. If a single one is asked for and
    scores tie, the lowest parent wins, then the lowest token.
    """
    count = min(count, live.shape[1] * logits.shape[1])
    # The kernel trusts these sizes; torch says what does not fit.
    is_row_each = logits.dim() == 2 and logits.shape[0] == live.numel()
    fits = live.dtype == torch.float32 and is_row_each and logits.shape[1] > EOS
    if fits and native.has_kernels(logits) and not is_reference():
        return _by_kernel(live, logits, count, excluded_tokens(may_end))
    return best_of(live, next_log_probabilities(logits, may_end), count)


def excluded_tokens(may_end: bool) -> list[int]:
    """The tokens that continue no hypothesis."""
    return [PAD, BOS] if may_end else [PAD, BOS, EOS]


def next_log_probabilities(logits: Tensor, may_end: bool) -> Tensor:
    """log p (N, V) of the next tokens, in float32 or better; -inf for those that are excluded, as above."""
    scores = F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    for token in excluded_tokens(may_end):  # a list as an index would be copied to the device
        scores[:, token] = -inf
    return scores


def best_of(live: Tensor, scores: Tensor, count: int) -> Continuations:
    """As `best_continuations`, given the log-probabilities (B * k, V), some of which may have been changed."""
    vocabulary = scores.shape[1]
    sums = (live[:, :, None] + scores.view(*live.shape, -1)).flatten(1)
    count = min(count, sums.shape[1])
    # Of equal sums, `topk` returns any.
    best, order = sums.max(dim=1, keepdim=True) if count == 1 else sums.topk(count)
    return Continuations(best, order // vocabulary, order % vocabulary, scores[:, EOS].view_as(live))


def _by_kernel(live: Tensor, logits: Tensor, count: int, excluded: list[int]) -> Continuations:
    (sentences, hypotheses), vocabulary = live.shape, logits.shape[1]
    scores, ends = live.new_empty(sentences, count), torch.empty_like(live)
    parents, tokens = live.new_empty((2, sentences, count), dtype=torch.int64).unbind()
    native.run(
        "best_continuations", logits.dtype, sentences=sentences, hypotheses=hypotheses, words=vocabulary, count=count,
        logits=logits.contiguous(), live=live.contiguous(), end=EOS, exclusions=len(excluded),
        excluded=torch.tensor(excluded, device="cpu"), scores=scores, parents=parents, tokens=tokens, ends=ends,
    )  # fmt: skip
    return Continuations(scores, parents, tokens, ends)
