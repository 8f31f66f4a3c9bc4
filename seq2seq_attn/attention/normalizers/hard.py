"""Hard: the token with the highest score is read, and nothing else."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.shapes import ScoreRows


class Hard(Normalizer):
    """a_j = 1 where e_j is highest, 0 elsewhere; the gradient is that of softmax.

    (The straight-through estimator of Bengio et al. 2013.) The gradient is biased: it is that of weights that were not
    used. Of equal scores, one is chosen.
    """

    equation = "a_j = [j = argmax_k e_k]"
    source = "Bengio et al. 2013, straight-through"

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        return straight_through(scores, torch.softmax(scores, dim=-1))


def straight_through(scores: ScoreRows, weights: ScoreRows) -> ScoreRows:
    """1 at the highest score of a row and 0 elsewhere, exactly, with the gradient of the weights."""
    highest = torch.zeros_like(weights).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)
    return highest + (weights - weights.detach())
