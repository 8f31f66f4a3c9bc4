"""Coverage: additive attention with a record of how much of each word has been translated (Tu et al. 2016)."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.attention.scorer import HistoryScorer, hidden_size_of, output_vector
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores, Weights
from seq2seq_attn.attention.source import History


class LinguisticCoverage(HistoryScorer):
    """v · tanh(W q + U k + V C_j + b), C_ij = C_i-1,j + a_ij / Φ_j, Φ_j = N σ(U_f k_j) (Tu et al. 2016, sec. 3.1).

    C is the total weight that a word has received, divided by its fertility Φ: the number of target words that it
    produces. C is 0 before the first step. W is (hidden_size, query_size), U (hidden_size, key_size), U_f (key_size,),
    V, b and v (hidden_size,).

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size.
        max_fertility: N, in words.
    """

    equation = "v · tanh(W q + U k + V C_j + b), C_j = Σ a_j / Φ_j over the steps before, Φ_j = N σ(U_f k_j)"
    source = "Tu et al. 2016, sec. 3.1, linguistic"

    def __init__(
        self, query_size: int, key_size: int, hidden_size: int | None = None, max_fertility: float = 2.0
    ) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        need_positive(self, max_fertility=max_fertility)
        self.max_fertility = max_fertility
        self.query_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.key_layer = nn.Linear(key_size, hidden_size)
        self.fertility_layer = nn.Linear(key_size, 1, bias=False)
        self.coverage_layer = nn.Linear(1, hidden_size, bias=False)
        self.v = nn.Parameter(output_vector(hidden_size))

    def prepare(self, keys: Keys) -> Prepared:
        """[U k + b; Φ] (B, S, hidden_size + 1)."""
        fertility = self.max_fertility * torch.sigmoid(self.fertility_layer(keys))
        # A fertility of 0 would make the coverage of a word that is never read 0 / 0.
        fertility = fertility.clamp_min(torch.finfo(fertility.dtype).eps)
        return torch.cat((full_precision(self.key_layer(keys)), full_precision(fertility)), dim=-1)

    def start(self, prepared: Prepared) -> History:
        return full_precision(torch.zeros_like(prepared[:, None, :, 0]))

    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores:
        covered = self.start(prepared) if history is None else history
        projected, covered = prepared[..., :-1].to(query.dtype), covered.to(query.dtype)
        covering = self.coverage_layer(covered[..., None])
        return torch.tanh(self.query_layer(query)[:, :, None] + projected[:, None] + covering) @ self.v

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        return history + full_precision(weights) / full_precision(prepared[:, None, :, -1])


class NeuralCoverage(HistoryScorer):
    """v · tanh(W q + U k + V C_j + b), C_ij = GRU(C_i-1,j; a_ij, k_j, q_i) (Tu et al. 2016, sec. 3.1, with gating).

    A state at every position, 0 before the first step, is updated with the weight a_ij of the position, its key and the
    query. W is (hidden_size, query_size), U (hidden_size, key_size), V (hidden_size, coverage_size), b and v
    (hidden_size,).

    Args:
        query_size: The width of q.
        key_size: The width of k.
        hidden_size: The width of the hidden layer; None takes query_size.
        coverage_size: The width of C_j.
    """

    equation = "v · tanh(W q + U k + V C_j + b), C_j = GRU(C_j; a_j, k_j, q) after every step"
    source = "Tu et al. 2016, sec. 3.1, neural network based"

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None, coverage_size: int = 10) -> None:
        super().__init__(query_size, key_size)
        hidden_size = hidden_size_of(self, hidden_size)
        need_positive(self, coverage_size=coverage_size)
        self.sizes = [hidden_size, 3 * coverage_size]
        self.query_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.key_layer = nn.Linear(key_size, hidden_size)
        self.coverage_layer = nn.Linear(coverage_size, hidden_size, bias=False)
        self.cell = CoverageCell(query_size, key_size, coverage_size)
        self.v = nn.Parameter(output_vector(hidden_size))

    def prepare(self, keys: Keys) -> Prepared:
        """[U k + b; the contribution of the keys to the gates] (B, S, hidden_size + 3 coverage_size)."""
        return torch.cat((full_precision(self.key_layer(keys)), full_precision(self.cell.from_key(keys))), dim=-1)

    def start(self, prepared: Prepared) -> History:
        return prepared.new_zeros((prepared.shape[0], 1, prepared.shape[1], self.coverage_layer.in_features))

    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores:
        covered = (self.start(prepared) if history is None else history).to(query.dtype)
        projected = prepared[..., : self.sizes[0]].to(query.dtype)
        covering = self.coverage_layer(covered)
        return torch.tanh(self.query_layer(query)[:, :, None] + projected[:, None] + covering) @ self.v

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        _, key_inputs = torch.split(prepared, self.sizes, dim=-1)
        return self.cell(history.to(query.dtype), weights, key_inputs.to(query.dtype), query)


class CoverageCell(nn.Module):
    """C' = (1 - z) C + z tanh(x + U (r C)), gates z and r of x and C: the GRU of Bahdanau et al. 2015, A.1.1."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.sizes = [2 * size, size]  # of the gates, of the candidate
        self.from_key = nn.Linear(key_size, 3 * size)
        self.from_query = nn.Linear(query_size, 3 * size, bias=False)
        self.from_weight = nn.Linear(1, 3 * size, bias=False)
        self.gate_layer = nn.Linear(size, 2 * size, bias=False)
        self.candidate_layer = nn.Linear(size, size, bias=False)

    def forward(self, covered: History, weights: Weights, key_inputs: Prepared, query: Query) -> History:
        inputs = key_inputs[:, None] + self.from_query(query)[:, :, None] + self.from_weight(weights[..., None])
        to_gates, to_candidate = torch.split(inputs, self.sizes, dim=-1)
        update, reset = torch.sigmoid(to_gates + self.gate_layer(covered)).chunk(2, dim=-1)
        candidate = torch.tanh(to_candidate + self.candidate_layer(reset * covered))
        return (1 - update) * covered + update * candidate
