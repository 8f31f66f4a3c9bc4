"""Location-aware: additive attention with features of the previous weights."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.scorer import HistoryScorer, hidden_size_of, output_vector
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores, Weights
from seq2seq_attn.attention.source import History, one_hot_first


class LocationAware(HistoryScorer):
    """v · tanh(W q + V k + U f_j + b), f = F * a, a the weights of the step before (Chorowski et al. 2015, eq. 8, 9).

    W is (hidden_size, query_size), V (hidden_size, key_size), U (hidden_size, filters), b and v (hidden_size,). Beyond
    the ends of the source a is 0. Before the first step a is 1 on the first position, as in the authors' code, so
    padding must be on the right. The authors' filters are for frames of speech and much wider than words need.

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size.
        filters: The number of filters of F.
        kernel_width: Their width in positions, odd; they are centered on j.
    """

    equation = "v · tanh(W q + V k + U f_j + b), f = F * a of the step before"
    source = "Chorowski et al. 2015, eq. 8 and 9"

    def __init__(
        self, query_size: int, key_size: int, hidden_size: int | None = None, filters: int = 10, kernel_width: int = 11
    ) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        need_positive(self, filters=filters, kernel_width=kernel_width)
        if kernel_width % 2 == 0:
            raise unfit(self, "an odd kernel_width", kernel_width)
        self.query_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.key_layer = nn.Linear(key_size, hidden_size)
        self.convolution = nn.Conv1d(1, filters, kernel_width, padding=kernel_width // 2, bias=False)
        self.location_layer = nn.Linear(filters, hidden_size, bias=False)
        self.v = nn.Parameter(output_vector(hidden_size))

    def prepare(self, keys: Keys) -> Prepared:
        """V k + b (B, S, hidden_size)."""
        return self.key_layer(keys)

    def start(self, prepared: Prepared) -> History:
        return one_hot_first(prepared[:, None, :, 0])

    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores:
        before = (self.start(prepared) if history is None else history).to(query.dtype)
        features = self.convolution(before.flatten(0, 1)[:, None]).unflatten(0, before.shape[:2])  # (B, K, filters, S)
        located = self.location_layer(features.transpose(2, 3))
        return torch.tanh(self.query_layer(query)[:, :, None] + prepared[:, None] + located) @ self.v

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        return weights
