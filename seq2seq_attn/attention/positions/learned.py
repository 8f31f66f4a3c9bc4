"""Learned: a vector of its own for every position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.checks import need_positive
from seq2seq_attn.attention.position import Position


class Learned(Position):
    """x_p + P_p, P (max_positions, size) learned (Gehring et al. 2017, sec. 3.1; Vaswani et al. 2017, table 3, row E).

    Args:
        size: The width of the embedded vectors.
        heads: The number of heads.
        max_positions: The length of the table.

    Raises:
        ValueError: In `add`: the sequence is longer than the table.
    """

    equation = "x + P[p]"
    source = "Gehring et al. 2017, sec. 3.1"

    def __init__(self, size: int, heads: int = 1, max_positions: int = 512) -> None:
        super().__init__(size, heads)
        need_positive(self, max_positions=max_positions)
        self.table = nn.Parameter(torch.empty(max_positions, size))
        nn.init.normal_(self.table, std=0.02)

    def add(self, vectors: Tensor, start: int = 0) -> Tensor:
        end = start + vectors.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"Learned has {len(self.table)} positions, but the sequence has {end}; raise max_positions, or choose "
                f"sinusoidal, relative_bias or rotary, which have no limit"
            )
        return vectors + self.table[start:end].to(vectors.dtype)
