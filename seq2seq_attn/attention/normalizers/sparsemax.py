"""Sparsemax: only the highest scores get a weight above 0."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import Normalizer, below_the_highest
from seq2seq_attn.attention.shapes import ScoreRows, TokenRows


class Sparsemax(Normalizer):
    """a_j = max(e_j - τ, 0), with τ such that they sum to 1 (Martins & Astudillo 2016).

    This is the projection of e onto the simplex. Scores lower than the maximum by 1 or more get exactly 0 and no
    gradient.
    """

    equation = "a_j = max(e_j - τ, 0), Σ_j a_j = 1"
    source = "Martins & Astudillo 2016"

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        scores = below_the_highest(scores)
        support = _support(scores.detach())
        total = torch.where(support, scores, 0).sum(dim=-1, keepdim=True)
        threshold = (total - 1) / support.sum(dim=-1, keepdim=True)
        return torch.where(support, scores - threshold, 0).relu()


def _support(scores: ScoreRows) -> TokenRows:
    """True where weights are positive: at the k highest scores, for the largest k with 1 + k e_(k) > Σ_{j ≤ k} e_(j).

    The maximum of a row is 0. Scores below -1 are never in the support and would only make the sums inexact.
    """
    ordered = scores.clamp(min=-1).sort(dim=-1, descending=True).values
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    size = (1 + rank * ordered > ordered.cumsum(dim=-1)).sum(dim=-1, keepdim=True)
    return scores >= ordered.gather(-1, (size - 1).clamp(min=0))  # 0 where all scores are NaN
