"""Softmax: every token gets a weight, larger for a higher score."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.normalizer import Normalizer, below_the_highest
from seq2seq_attn.attention.shapes import IsToken, ScoreRows, States, Weights


class Softmax(Normalizer):
    """a_j = exp(e_j / τ) / Σ_k exp(e_k / τ): weights above 0 that sum to 1 (Bahdanau et al. 2015, eq. 6, τ = 1).

    Args:
        temperature: τ; the lower, the more weight goes to the highest scores.
    """

    equation = "a_j = exp(e_j / τ) / Σ_k exp(e_k / τ)"
    source = "Bahdanau et al. 2015, eq. 6"

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        need_positive(self, temperature=temperature)
        self.temperature = temperature

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        if self.temperature != 1.0:
            smallest = torch.finfo(scores.dtype).tiny  # a temperature below it would be 0, and 0 / 0 is no number
            scores = below_the_highest(scores) / max(self.temperature, smallest)
        return torch.softmax(scores, dim=-1)


def uniform_weights(states: States, is_token: IsToken) -> Weights:
    """(B, 1, S): 1 / (number of tokens) on every token, as softmax gives where all scores are equal."""
    weights: Weights = Softmax()(states.new_zeros(is_token.shape)[:, None], is_token[:, None])
    return weights
