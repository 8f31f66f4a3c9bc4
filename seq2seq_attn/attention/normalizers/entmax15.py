"""Entmax15: between softmax and sparsemax."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import Normalizer, below_the_highest
from seq2seq_attn.attention.shapes import ScoreRows, TokenRows


class Entmax15(Normalizer):
    """a_j = max(e_j / 2 - τ, 0)², with τ such that they sum to 1: α-entmax for α = 1.5 (Peters et al. 2019).

    Scores lower than the maximum by 2 or more get exactly 0 and no gradient. For the k halved scores above τ, with mean
    M and sum of squared deviations D, τ = M - √((1 - D) / k).
    """

    equation = "a_j = max(e_j / 2 - τ, 0)², Σ_j a_j = 1"
    source = "Peters et al. 2019"

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        halves = below_the_highest(scores) / 2
        support = _support(halves.detach())
        size = support.sum(dim=-1, keepdim=True)
        mean = torch.where(support, halves, 0).sum(dim=-1, keepdim=True) / size
        deviation = torch.where(support, halves - mean, 0)
        above = ((1 - (deviation**2).sum(dim=-1, keepdim=True)) / size).sqrt()  # M - τ
        return torch.where(support, deviation + above, 0).relu() ** 2


def _support(halves: ScoreRows) -> TokenRows:
    """True where weights are positive: at the k highest scores, for the largest k whose τ is not above the k-th score.

    The maximum of a row is 0. Numbers below -1 are never in the support and would only make the sums inexact.
    """
    ordered = halves.clamp(min=-1).sort(dim=-1, descending=True).values
    rank = torch.arange(1, halves.shape[-1] + 1, device=halves.device)
    mean = ordered.cumsum(dim=-1) / rank
    deviations = (ordered**2).cumsum(dim=-1) - rank * mean**2
    threshold = mean - ((1 - deviations) / rank).clamp(min=0).sqrt()
    size = (threshold <= ordered).sum(dim=-1, keepdim=True)
    return halves >= ordered.gather(-1, (size - 1).clamp(min=0))  # 0 where all scores are NaN
