"""Dot: the plain inner product."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Dot(Scorer):
    """q · k (Luong et al. 2015, sec. 3.1, "dot"). No parameters.

    Args:
        query_size: The width of q.
        key_size: The width of k; the same.
    """

    equation = "q · k"
    source = 'Luong et al. 2015, sec. 3.1, "dot"'
    needs_equal_sizes = True

    def prepare(self, keys: Keys) -> Prepared:
        return keys

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.bmm(query, prepared.transpose(1, 2))
