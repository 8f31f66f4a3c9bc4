"""Softmax that never goes back: a chain of positions that is summed over all its paths."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.normalizer import HistoryNormalizer, log_weights
from seq2seq_attn.attention.shapes import ScoreRows
from seq2seq_attn.attention.source import History, one_hot_first


class MonotonicSoftmax(HistoryNormalizer):
    """a_ij = Σ_k≤j a_i-1,k exp(e_ij) / Σ_l≥k exp(e_il): softmax over what has not been passed.

    The weights are p(position i = j) in a Markov chain that starts at the first position and goes from k to j ≥ k with
    probability softmax_l≥k(e_i)_j (Wu & Cotterell 2019, the model that they call 0-MONO). Under the decoder `hard`, the
    chain is conditioned on the tokens so far, and the sum over all paths is the likelihood of the target; under any
    other decoder, the weights are those of soft attention. If a window closes all that has not been passed, the chain
    goes to the last open position.
    """

    equation = "a_ij = Σ_k≤j a_i-1,k exp(e_ij) / Σ_l≥k exp(e_il)"
    source = "Wu & Cotterell 2019, 0-MONO"

    def start(self, scores: ScoreRows) -> History:
        return one_hot_first(scores)

    def normalize_after(self, scores: ScoreRows, history: History) -> ScoreRows:
        position = torch.arange(scores.shape[-1], device=scores.device)
        last_open = torch.where(scores > -torch.inf, position, 0).amax(dim=-1, keepdim=True)
        can_follow = position >= torch.minimum(position, last_open)[..., None]  # (..., S, S): from k to j
        transitions = torch.softmax(torch.where(can_follow, scores[..., None, :], -torch.inf), dim=-1)
        weights: ScoreRows = (history.to(scores.dtype)[..., None, :] @ transitions).squeeze(-2)
        return weights

    def advance(self, history: History, weights: ScoreRows) -> History:
        return weights

    def condition(self, history: History, log_likelihood: ScoreRows) -> History:
        return torch.softmax(log_weights(history) + log_likelihood, dim=-1).to(history.dtype)
