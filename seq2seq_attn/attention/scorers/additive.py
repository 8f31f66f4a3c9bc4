"""Additive: the one-layer network of the first attention model."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.scorer import Scorer, hidden_size_of, output_vector
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Additive(Scorer):
    """v · tanh(W q + U k + b) (Bahdanau et al. 2015, A.1.2, written there without b).

    W is (hidden_size, query_size), U (hidden_size, key_size), b and v (hidden_size,).

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size: the paper gives the alignment network as many
            units as the decoder.
    """

    equation = "v · tanh(W q + U k + b)"
    source = "Bahdanau et al. 2015, A.1.2"

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        self.query_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.key_layer = nn.Linear(key_size, hidden_size)
        self.v = nn.Parameter(output_vector(hidden_size))

    def prepare(self, keys: Keys) -> Prepared:
        """U k + b (B, S, hidden_size)."""
        return self.key_layer(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.tanh(self.query_layer(query)[:, :, None] + prepared[:, None]) @ self.v
