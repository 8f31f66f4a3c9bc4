"""General: the bilinear form, for query and key of different sizes."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class General(Scorer):
    """q · W k (Luong et al. 2015, sec. 3.1, "general"); W is (query_size, key_size).

    Args:
        query_size: The width of q.
        key_size: The width of k.
    """

    equation = "q · W k"
    source = 'Luong et al. 2015, sec. 3.1, "general"'

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.key_layer = nn.Linear(key_size, query_size, bias=False)

    def prepare(self, keys: Keys) -> Prepared:
        """W k (B, S, query_size): applied to the keys, the matrix is needed only once per sentence."""
        return self.key_layer(keys)

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        return torch.bmm(query, prepared.transpose(1, 2))
