"""Cosine: the angle between query and key, whatever their lengths."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores

SHORTEST = 1e-8  # of a vector that has a direction


class Cosine(Scorer):
    """q · k / (|q| |k| τ) (Graves et al. 2014, eq. 5 and 6, with β = 1/τ).

    Scores lie in [-1/τ, 1/τ], so the temperature bounds how sharp a softmax can become: at τ = 1 no weight over 50 keys
    can exceed e² / (e² + 49) = 0.13, hence the default of 0.1. A zero vector has no direction; it scores 0.

    Args:
        query_size: The width of q.
        key_size: The width of k; the same.
        temperature: τ, or its initial value.
        learned: Whether log τ is learned, as in Radford et al. 2021, sec. 2.3, so that τ stays positive.
    """

    equation = "q · k / (|q| |k| τ)"
    source = "Graves et al. 2014, eq. 5 and 6"
    needs_equal_sizes = True

    def __init__(self, query_size: int, key_size: int, temperature: float = 0.1, learned: bool = False) -> None:
        super().__init__(query_size, key_size)
        need_positive(self, temperature=temperature)
        self.temperature = temperature
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature))) if learned else None

    def prepare(self, keys: Keys) -> Prepared:
        """k / (|k| τ)."""
        temperature = self.temperature if self.log_temperature is None else self.log_temperature.exp()
        return _unit(keys) / temperature

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.bmm(_unit(query), prepared.transpose(1, 2))


def _unit(vectors: Tensor) -> Tensor:
    """Vectors / their length; those shorter than SHORTEST stay as they are.

    Dividing by max(length, SHORTEST) would be as safe from NaN, but would multiply the gradient of a zero
    vector by 1 / SHORTEST.
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > SHORTEST, length, 1.0)
