"""Shuffled: weights as sharp as those of softmax, but at random positions."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention.normalizer import HistoryNormalizer
from seq2seq_attn.attention.shapes import ScoreRows, TokenRows
from seq2seq_attn.attention.source import History

PRIME = 65_537  # 2 modulo 3, so that no two numbers below it have the same cube


class Shuffled(HistoryNormalizer):
    """a_j = softmax_π(j)(e), with π a permutation of the tokens that changes at every step: a baseline.

    (Jain & Wallace 2019 permute the weights of a trained model; this baseline is trained with permuted weights.) It
    differs from softmax attention only in the choice of the tokens.

    In training mode π is drawn from torch's generator. Evaluation mode permutes as well, since the decoder was never
    trained with unpermuted weights. There π depends only on the indices of the step and the token, so that translations
    are reproducible and independent of the rest of the batch and the beam.
    """

    equation = "a_j = exp(e_π(j)) / Σ_k exp(e_k), π another permutation at every step"
    source = 'after Jain & Wallace 2019, "attention permutation"'

    @property
    def can_extend(self) -> bool:
        """True: the history counts steps."""
        return True

    def start(self, scores: ScoreRows) -> History:
        return scores.new_zeros(scores.shape[:2], dtype=torch.int64)

    def normalize_after(self, scores: ScoreRows, history: History) -> ScoreRows:
        is_open = scores > torch.finfo(scores.dtype).min  # a scorer may exclude positions that are not padding
        keys = torch.rand_like(scores) if self.training else _keys(is_open.cumsum(dim=-1), history).to(scores.dtype)
        return reordered(torch.softmax(scores, dim=-1), is_open, keys)

    def advance(self, history: History, weights: ScoreRows) -> History:
        return history + 1


def _keys(tokens: Tensor, steps: Tensor) -> Tensor:
    """Pseudorandom keys (B, K, S) from the indices of tokens (B, K, S) and steps (B, K): cubes modulo a prime."""
    return (40_503 * tokens + 12_553 * steps[..., None]).remainder(PRIME) ** 3 % PRIME


def reordered(rows: ScoreRows, is_open: TokenRows, keys: ScoreRows) -> ScoreRows:
    """The numbers on open positions sorted by their keys, from left to right; all others stay in place."""
    is_open = is_open.expand(rows.shape)
    order = torch.where(is_open, keys, torch.inf).argsort(dim=-1, stable=True)
    places = (~is_open).int().argsort(dim=-1, stable=True)
    return torch.empty_like(rows).scatter(-1, places, rows.gather(-1, order))
