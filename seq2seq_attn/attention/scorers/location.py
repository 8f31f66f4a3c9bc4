"""Location: the query alone chooses the position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores


class Location(Scorer):
    """Position j scores w_j · q, w_j being row j of W (Luong et al. 2015, eq. 8: a = softmax(W q)).

    W is (max_length, query_size). A source shorter than max_length uses the first rows of W. In a longer one, positions
    from max_length on score -inf and are never read, as in the paper. A position before max_length must remain to be
    read, as is always the case with padding on the right; where a window or a mask leaves none, the scores say nothing
    and all positions that it leaves are read alike.

    Args:
        query_size: The width of q.
        key_size: The width of k, which has no effect.
        max_length: The number of positions that can be read.
    """

    equation = "w_j · q at position j"
    source = "Luong et al. 2015, eq. 8"

    def __init__(self, query_size: int, key_size: int, max_length: int = 50) -> None:
        super().__init__(query_size, key_size)
        need_positive(self, max_length=max_length)
        self.position_layer = nn.Linear(query_size, max_length, bias=False)

    def prepare(self, keys: Keys) -> Prepared:
        """(B, S, 0): only the number of keys matters."""
        return keys.new_empty((*keys.shape[:2], 0))

    def forward(self, query: Query, prepared: Prepared) -> Scores:
        positions = prepared.shape[1]
        if torch.compiler.is_compiling():  # one graph for any number of positions
            return F.pad(self.position_layer(query), (0, positions), value=-torch.inf)[..., :positions]
        scores = F.linear(query, self.position_layer.weight[:positions])
        out_of_reach = positions - scores.shape[-1]
        return F.pad(scores, (0, out_of_reach), value=-torch.inf) if out_of_reach else scores
