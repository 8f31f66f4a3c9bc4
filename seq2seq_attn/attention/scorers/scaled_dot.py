"""ScaledDot: the inner product, with a variance that does not grow with the size."""

from __future__ import annotations

import math

import torch

from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class ScaledDot(Scorer):
    """q · k / √d (Vaswani et al. 2017, eq. 1). No parameters.

    Args:
        query_size: d, the width of q.
        key_size: The width of k; the same.
    """

    equation = "q · k / √d"
    source = "Vaswani et al. 2017, eq. 1"
    needs_equal_sizes = True

    def prepare(self, keys: Keys) -> Prepared:
        """keys / √d: scaled once per sentence instead of at every step."""
        return keys / math.sqrt(self.key_size)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.bmm(query, prepared.transpose(1, 2))
