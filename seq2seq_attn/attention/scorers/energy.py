"""v · tanh(x + y) for every pair of a query and a key: what `Additive` and its kin have in common."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.normaliser import autocast_off, full_precision
from seq2seq_attn.attention.shapes import Prepared, Query, Scores

IN_CACHE = 1 << 18  # numbers: a megabyte


class Energy(nn.Module):
    """v · tanh(x + y) of projected queries x (B, T, A) and projected keys y (B, S, A), v (A,): (B, T, S).

    Computed as 2 v · σ(2 (x + y)) - Σ v, which is the same and takes a fifth of the time on a processor: tanh is the
    dearest of all elementwise functions there. In float32 at least, where both the sum and σ are no slower than in
    bfloat16.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        bound = size**-0.5  # as nn.Linear draws a row of this size
        self.v = nn.Parameter(torch.empty(size).uniform_(-bound, bound))

    def prepare(self, keys: Prepared) -> Prepared:
        """y (B, S, A) in the precision of the sum, once a sentence."""
        return full_precision(keys)

    def forward(self, queries: Query, prepared: Prepared, pairs: Tensor | None = None) -> Scores:
        """What hangs on a query and a key together, `pairs` (B, T, S, A), may be added to the sum of the two."""
        keys = prepared[:, None] if pairs is None else prepared[:, None] + full_precision(pairs)
        with autocast_off(keys):
            doubled, v = 2 * full_precision(queries)[:, :, None], full_precision(self.v)
            scores = [torch.matmul(torch.add(x, y, alpha=2).sigmoid_(), 2 * v) for x, y in _by_sentences(doubled, keys)]
            return (torch.cat(scores) - v.sum()).to(queries.dtype)


def _by_sentences(queries: Tensor, keys: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """(B, T, 1, A) and (B, 1 or T, S, A) whole or, in a search on a processor, a few sentences at a time.

    Their sum (B, T, S, A) is by far the largest tensor of a step: so it never leaves the cache.
    """
    if torch.compiler.is_compiling() or queries.device.type != "cpu" or not torch.is_inference_mode_enabled():
        return [(queries, keys)]
    of_one = queries.shape[1] * keys.shape[2] * keys.shape[3]
    sentences = max(1, IN_CACHE // max(1, of_one))
    return zip(torch.split(queries, sentences), torch.split(keys, sentences), strict=True)
