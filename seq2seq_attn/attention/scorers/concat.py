"""Concat: a layer over the concatenation of query and key."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention.scorer import Scorer, hidden_size_of, output_vector
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Concat(Scorer):
    """v · tanh(W [q; k]) (Luong et al. 2015, sec. 3.1, "concat").

    W is (hidden_size, query_size + key_size), v (hidden_size,). As W [q; k] = W_q q + W_k k, this is `Additive` without
    its bias and with W initialized as one matrix. The vectors are never concatenated: the product for the keys is
    computed once per sentence.

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size.
    """

    equation = "v · tanh(W [q; k])"
    source = 'Luong et al. 2015, sec. 3.1, "concat"'

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        self.layer = nn.Linear(query_size + key_size, hidden_size, bias=False)
        self.v = nn.Parameter(output_vector(hidden_size))

    def prepare(self, keys: Keys) -> Prepared:
        """W_k k (B, S, hidden_size)."""
        return F.linear(keys, self.layer.weight[:, self.query_size :])

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        projected = F.linear(query, self.layer.weight[:, : self.query_size])
        return torch.tanh(projected[:, :, None] + prepared[:, None]) @ self.v
