"""Monotonic: the source is read from left to right, one position per step."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention.checks import is_exported, jit_traced, unfit
from seq2seq_attn.attention.normalizer import HistoryNormalizer
from seq2seq_attn.attention.shapes import ScoreRows
from seq2seq_attn.attention.source import History, one_hot_first

EXPORTED_LENGTH = 1 << 16  # positions that an exported program can read: its graph has a fixed number of rounds


class Monotonic(HistoryNormalizer):
    """a_ij = p_ij q_ij, q_ij = (1 - p_i,j-1) q_i,j-1 + a_i-1,j, p = σ(e) (Raffel et al. 2017, eq. 11 to 14).

    Every step continues from the position chosen by the previous step, and stops at each position with probability p.
    In training mode the weight a_ij is the probability of stopping at j, over all paths. Evaluation mode takes one path
    (sec. 2.2): it stops at the first position with p > 1/2, where a is 1. A path that passes the last token stops
    nowhere, at this step and all later ones: weights sum to 1 or less, and the context may be 0.

    Scores should be below 0 at initialization, so that the weights do not stay on the first tokens: use
    `NormalizedAdditive` with an `initial_offset` of -1, or lower for long sources. An exported or traced program reads
    sources of up to `EXPORTED_LENGTH` positions.

    Args:
        noise: The standard deviation of Gaussian noise added to e in training mode. It favors scores far from 0, for
            which both modes agree.
    """

    equation = "a_ij = p_ij q_ij, q_ij = (1 - p_i,j-1) q_i,j-1 + a_i-1,j, p = σ(e)"
    source = "Raffel et al. 2017, eq. 11 to 14"
    sums_to_one = False

    def __init__(self, noise: float = 1.0) -> None:
        super().__init__()
        if not noise >= 0:
            raise unfit(self, "noise >= 0", noise)
        self.noise = noise

    def start(self, scores: ScoreRows) -> History:
        return one_hot_first(scores)

    def normalize_after(self, scores: ScoreRows, history: History) -> ScoreRows:
        if self.training:
            scores = scores + self.noise * torch.randn_like(scores) if self.noise else scores
            # 1 - p would round to 0 where p is close to 1.
            stop, go_on = torch.sigmoid(scores), torch.sigmoid(-scores)
        else:
            stop = (scores > 0).to(scores.dtype)
            go_on = 1 - stop
        return stop * _arrivals(go_on, history)

    def advance(self, history: History, weights: ScoreRows) -> History:
        return weights


def _arrivals(go_on: Tensor, start: Tensor) -> Tensor:
    """q_j = go_on_{j-1} q_{j-1} + start_j for all j (..., S) at once: a parallel scan in log2 S rounds.

    After a round, `arrive` is the sum over starts fewer than `reach` positions before, and `cross` is the probability
    of passing `reach` positions. These are products and sums of numbers from 0 to 1, so nothing can overflow or cancel;
    the closed form in the appendix of the paper divides by a product that vanishes for long sources.
    """
    positions = go_on.shape[-1]
    if is_exported():
        if not jit_traced():
            torch._check(positions <= EXPORTED_LENGTH)  # type: ignore[no-untyped-call]
        positions = EXPORTED_LENGTH
    cross, arrive, reach = _shifted(go_on, 1), start, 1
    while reach < positions:
        arrive = arrive + cross * _shifted(arrive, reach)
        cross = cross * _shifted(cross, reach)
        reach *= 2
    return arrive


def _shifted(row: Tensor, places: int) -> Tensor:
    """The row shifted right by `places`, which may exceed its length; 0 where there is no number."""
    position = torch.arange(row.shape[-1], device=row.device) - places
    return row[..., position.clamp(min=0)] * (position >= 0)
