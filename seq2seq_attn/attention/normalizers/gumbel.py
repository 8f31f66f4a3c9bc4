"""Gumbel: softmax of scores with random noise during training."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.normalizers.hard import straight_through
from seq2seq_attn.attention.normalizers.softmax import Softmax
from seq2seq_attn.attention.shapes import ScoreRows


class Gumbel(Normalizer):
    """a = softmax((e + g) / τ), g_j = -log(-log u_j) with u_j uniform in (0, 1) (Jang et al. 2017, eq. 2).

    Noise is added in training mode only, from torch's generator; in evaluation mode g = 0.

    Args:
        temperature: τ; the lower, the closer the weights are to one token drawn with the probabilities softmax(e).
        hard: Reads only that token, with the gradient of the weights (sec. 2.2, straight-through).
    """

    equation = "a_j = exp((e_j + g_j) / τ) / Σ_k exp((e_k + g_k) / τ)"
    source = "Jang et al. 2017, eq. 2"

    def __init__(self, temperature: float = 1.0, hard: bool = False) -> None:
        super().__init__()
        need_positive(self, temperature=temperature)
        self.hard = hard
        self.softmax = Softmax(temperature)

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        if self.training:
            scores = scores + _gumbel_noise(scores)
        weights = self.softmax.normalize(scores)
        return straight_through(scores, weights) if self.hard else weights


def _gumbel_noise(scores: ScoreRows) -> ScoreRows:
    """-log of exponential random numbers, which are themselves -log of uniform ones."""
    exponential = torch.empty_like(scores).exponential_()
    return -exponential.clamp(min=torch.finfo(scores.dtype).tiny).log()  # 0 may be drawn, and would give inf
