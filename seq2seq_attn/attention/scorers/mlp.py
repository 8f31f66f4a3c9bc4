"""MLP: a feedforward network of any depth over query and key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class MLP(Scorer):
    """v · h_n, h_i = tanh(W_i h_{i-1} + b_i), h_1 = tanh(W q + U k + b_1) (Bahdanau et al. 2015, sec. 3.1).

    This is the paper's "feedforward neural network"; the paper uses one hidden layer, as in `Additive`. The first layer
    is split, so that its product with the keys is computed once per sentence; every other layer has activations (B, T,
    S, width).

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_sizes: The widths of h_1 to h_n; None takes two layers as wide as the query.
    """

    equation = "v · h_n, h_i = tanh(W_i h_{i-1} + b_i), h_1 = tanh(W q + U k + b_1)"
    source = "Bahdanau et al. 2015, sec. 3.1"

    def __init__(self, query_size: int, key_size: int, hidden_sizes: Sequence[int] | None = None) -> None:
        super().__init__(query_size, key_size)
        sizes = [query_size, query_size] if hidden_sizes is None else list(hidden_sizes)
        if not sizes:
            raise unfit(self, "at least one hidden size", sizes, "use Biaffine for none")
        for size in sizes:
            need_positive(self, hidden_sizes=size)
        self.query_layer = nn.Linear(query_size, sizes[0], bias=False)
        self.key_layer = nn.Linear(key_size, sizes[0])
        self.deeper_layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.v = nn.Linear(sizes[-1], 1, bias=False)

    def prepare(self, keys: Keys) -> Prepared:
        """U k + b_1 (B, S, hidden_sizes[0])."""
        return self.key_layer(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        hidden = torch.tanh(self.query_layer(query)[:, :, None] + prepared[:, None])
        for layer in self.deeper_layers:
            hidden = torch.tanh(layer(hidden))
        return self.v(hidden).squeeze(-1)
