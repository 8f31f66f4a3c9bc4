"""RelativeBias: a learned number per head and distance, added to the scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.position import Position


class RelativeBias(Position):
    """F(q_i, k_j) + b[h, clip(j - i)], clip to ±max_distance, h the head (Shaw et al. 2018, eq. 4; Raffel et al. 2020).

    Shaw et al. have vectors for the distances; a number per head and distance is the simplification of Raffel et al.,
    sec. 2.1, who also put far distances into common buckets. b is (heads, 2 max_distance + 1), initialized to 0.

    Args:
        size: The width of the embedded vectors.
        heads: The number of heads.
        max_distance: The distance in positions from which on b is the same.
    """

    equation = "F(q_i, k_j) + b[h, clip(j - i)] in head h"
    source = "Shaw et al. 2018, eq. 4, and Raffel et al. 2020, sec. 2.1"
    in_attention = True

    def __init__(self, size: int, heads: int, max_distance: int = 16) -> None:
        super().__init__(size, heads)
        need_positive(self, max_distance=max_distance)
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def bias(self, queries: int, positions: int) -> Tensor:
        keys = torch.arange(positions, device=self.table.device)
        distance = keys - keys[positions - queries :, None]
        return self.table[:, distance.clamp(-self.max_distance, self.max_distance) + self.max_distance]
