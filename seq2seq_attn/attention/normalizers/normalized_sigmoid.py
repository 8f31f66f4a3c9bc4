"""Normalized sigmoid: softmax with a bounded exponential, so that several positions share the weight."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.shapes import ScoreRows


class NormalizedSigmoid(Normalizer):
    """a_j = σ(e_j) / Σ_k σ(e_k): the smoothing of Chorowski et al. 2015, sec. 2.3, for many frames of one sound.

    A high score counts at most as 1, so no single position can outweigh all others that are high as well.
    """

    equation = "a_j = σ(e_j) / Σ_k σ(e_k)"
    source = "Chorowski et al. 2015, sec. 2.3"

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        return torch.softmax(torch.nn.functional.logsigmoid(scores), dim=-1)  # where all σ(e_k) are near 0, no 0 / 0
