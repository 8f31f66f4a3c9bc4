"""Biaffine: the bilinear form, plus linear terms of query and key."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Biaffine(Scorer):
    """q · U k + u · q + w · k + b (Dozat & Manning 2017, eq. 3, for one class).

    U is (query_size, key_size), u (query_size,), w (key_size,), b a scalar. As in the authors' code this is the
    bilinear form of [q; 1] and [k; 1]: [U; w] is the weight of one layer, [u; b] its bias. Terms that do not depend on
    the key shift all scores of a row equally: softmax is invariant to them, so u and b get no gradient.

    Args:
        query_size: The width of q.
        key_size: The width of k.
    """

    equation = "q · U k + u · q + w · k + b"
    source = "Dozat & Manning 2017, eq. 3"

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.key_layer = nn.Linear(key_size, query_size + 1)

    def prepare(self, keys: Keys) -> Prepared:
        """[U k + u; w · k + b] (B, S, query_size + 1)."""
        return self.key_layer(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        prepared = prepared.transpose(1, 2)
        return torch.baddbmm(prepared[:, -1:], query, prepared[:, :-1])
