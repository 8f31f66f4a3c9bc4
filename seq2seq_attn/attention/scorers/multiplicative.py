"""Multiplicative: the inner product of projections of query and key."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.scorer import Scorer, hidden_size_of
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Multiplicative(Scorer):
    """W q · U k (Britz et al. 2017, eq. 7): `General` with a matrix Wᵀ U of rank at most hidden_size.

    W is (hidden_size, query_size), U (hidden_size, key_size).

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of both projections; None takes query_size.
    """

    equation = "W q · U k"
    source = "Britz et al. 2017, eq. 7"

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        self.query_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.key_layer = nn.Linear(key_size, hidden_size, bias=False)

    def prepare(self, keys: Keys) -> Prepared:
        """U k (B, S, hidden_size)."""
        return self.key_layer(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.bmm(self.query_layer(query), prepared.transpose(1, 2))
