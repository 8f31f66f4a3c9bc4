"""Relative: any scorer, plus a learned bias for the distance between step and position."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.scorer import HistoryScorer, ScorerFactory, new_scorer
from seq2seq_attn.attention.scorers.general import General
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores, Weights
from seq2seq_attn.attention.source import History


class Relative(HistoryScorer):
    """F(q_i, k_j) + b[clip(j - i)], clip to ±max_distance (Shaw et al. 2018, sec. 3.2; a scalar as in T5, Raffel 2020).

    b has 2 max_distance + 1 entries, initialized to 0. Positions j and steps i count from 0, so padding must be on the
    right. The history is the number of steps and the history of F.

    Args:
        query_size: The width of q.
        key_size: The width of k.
        scorer: Creates F with these sizes.
        max_distance: The distance in positions from which on b is the same.
    """

    equation = "F(q_i, k_j) + b[clip(j - i)] at step i and position j, F any scorer"
    source = "Shaw et al. 2018, sec. 3.2, and Raffel et al. 2020, sec. 2.1"

    def __init__(self, query_size: int, key_size: int, scorer: ScorerFactory = General, max_distance: int = 16) -> None:
        super().__init__(query_size, key_size)
        need_positive(self, max_distance=max_distance)
        self.scorer = new_scorer(self, scorer, query_size, key_size)
        self.max_distance = max_distance
        self.bias = nn.Parameter(torch.zeros(2 * max_distance + 1))

    @property
    def can_extend(self) -> bool:
        return self.scorer.can_extend

    def prepare(self, keys: Keys) -> Prepared:
        return self.scorer.prepare(keys)

    def start(self, prepared: Prepared) -> History:
        return prepared.new_zeros((prepared.shape[0], 1), dtype=torch.int64), self.scorer.start(prepared)

    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores:
        steps, inner = self.start(prepared) if history is None else history
        scores = self.scorer.after(inner, query, prepared)
        ahead = torch.arange(scores.shape[-1], device=scores.device) - steps[..., None]
        return scores + self.bias[ahead.clamp(-self.max_distance, self.max_distance) + self.max_distance]

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        steps, inner = history
        return steps + 1, self.scorer.advance(inner, query, prepared, weights)

    def ahead(self, history: History, steps: int) -> History | None:
        taken, inner = history
        inner = self.scorer.ahead(inner, steps)
        return None if inner is None else (taken + torch.arange(steps, device=taken.device), inner)
