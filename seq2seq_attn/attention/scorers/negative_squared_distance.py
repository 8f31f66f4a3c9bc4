"""NegativeSquaredDistance: the closer a key is to the query, the higher its score."""

from __future__ import annotations

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class NegativeSquaredDistance(Scorer):
    """-|q - k|² / τ (Kim et al. 2021, the L2 self-attention, there with τ = √d). No parameters.

    Under softmax the weights are Gaussian kernels around the query, of variance τ / 2. The differences of all pairs
    take (B, T, S, d) numbers of memory.

    Args:
        query_size: d, the width of q.
        key_size: The width of k; the same.
        temperature: τ.
    """

    equation = "-|q - k|² / τ"
    source = "Kim et al. 2021"
    needs_equal_sizes = True

    def __init__(self, query_size: int, key_size: int, temperature: float = 1.0) -> None:
        super().__init__(query_size, key_size)
        need_positive(self, temperature=temperature)
        self.temperature = temperature

    def prepare(self, keys: Keys) -> Prepared:
        return keys

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return -((query[:, :, None] - prepared[:, None]) ** 2).sum(-1) / self.temperature
