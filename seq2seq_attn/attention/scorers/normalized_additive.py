"""NormalizedAdditive: the additive network with weight normalization and an offset."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.scorers.additive import Additive
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class NormalizedAdditive(Scorer):
    """g v / |v| · tanh(W q + U k + b) + r (Raffel et al. 2017, eq. 16): v under weight normalization.

    (Salimans & Kingma 2016, eq. 2.) W, U, b and v are those of `Additive`; the gain g starts at 1/√hidden_size. Softmax
    is invariant to the offset r, which then gets no gradient. Sigmoid and monotonic attention are not: a negative
    offset prevents them from reading everything at once at the start of training.

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size.
        initial_offset: r before training.
    """

    equation = "g v / |v| · tanh(W q + U k + b) + r"
    source = "Raffel et al. 2017, eq. 16"

    def __init__(
        self, query_size: int, key_size: int, hidden_size: int | None = None, initial_offset: float = 0.0
    ) -> None:
        super().__init__(query_size, key_size)
        self.additive = Additive(query_size, key_size, hidden_size)
        self.gain = nn.Parameter(torch.tensor(len(self.additive.v) ** -0.5))
        self.offset = nn.Parameter(torch.tensor(float(initial_offset)))

    def prepare(self, keys: Keys) -> Prepared:
        """U k + b (B, S, hidden_size)."""
        return self.additive.prepare(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        scores: Scores = self.additive(query, prepared)
        length: Tensor = torch.linalg.vector_norm(self.additive.v)
        return scores * (self.gain / length) + self.offset
