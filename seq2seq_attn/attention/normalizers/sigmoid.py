"""Sigmoid: the weight of a token depends only on its own score."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.shapes import ScoreRows


class Sigmoid(Normalizer):
    """a_j = 1 / (1 + exp(-e_j)) (Ramapuram et al. 2024): weights between 0 and 1 that need not sum to 1.

    A context is a sum of the values, not a mean, and may grow with the length of the source.
    """

    equation = "a_j = 1 / (1 + exp(-e_j))"
    source = "Ramapuram et al. 2024"
    sums_to_one = False

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        return torch.sigmoid(scores)
