"""LocalP: a window around a position that the query predicts (Luong et al. 2015, sec. 3.2)."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.attention.shapes import Query, Steps, TokenRows
from seq2seq_attn.attention.window import View, Window, token_count, token_positions


class LocalP(Window):
    """Local-p: p_t = S σ(v · tanh(W q)); weights are multiplied with exp(-(s - p_t)² / 2d²), d = D / 2.

    (Luong et al. 2015, eq. 9 and 10.) S is the number of tokens, s runs from 1 to S: only tokens with |s - p_t| ≤ D are
    read. W is (hidden_size, query_size), v (hidden_size,). As in the paper, the weights sum to less than 1; the
    gradients of W and v flow through the Gaussian.

    Args:
        query_size: The width of q.
        half_width: D, in tokens.
        hidden_size: The width of the hidden layer; None takes query_size.
    """

    equation = "exp(-2 (s - p)² / D²) if |s - p| ≤ D, else 0; p = S σ(v · tanh(W q))"
    source = 'Luong et al. 2015, eq. 9 and 10, "local-p"'
    has_factor = True

    def __init__(self, query_size: int, half_width: int = 10, hidden_size: int | None = None) -> None:
        super().__init__(query_size)
        hidden_size = query_size if hidden_size is None else hidden_size
        need_positive(self, half_width=half_width, hidden_size=hidden_size)
        self.half_width = half_width
        self.hidden_layer = nn.Linear(query_size, hidden_size, bias=False)
        self.v = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, query: Query, is_token: TokenRows, steps: Steps) -> View:
        fraction = torch.sigmoid(self.v(torch.tanh(self.hidden_layer(query))))  # (B, K, 1)
        center = token_count(is_token) * full_precision(fraction)
        distance = 1 + token_positions(is_token) - center
        deviation = self.half_width / 2
        factor = torch.exp(-(distance**2) / (2 * deviation**2))
        return View(is_token & (distance.abs() <= self.half_width), factor)
