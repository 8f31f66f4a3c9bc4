"""Rotary: queries and keys are rotated by angles proportional to their positions."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.position import Position
from seq2seq_attn.attention.positions.sinusoidal import position_angles


class Rotary(Position):
    """R_p x, the pair (x_2m, x_2m+1) rotated by p / base^(2m/d), for queries and keys (Su et al. 2021, eq. 14 to 16).

    (R_i q) · (R_j k) depends on positions only through j - i. No parameters, any length. d is the size of a head.

    Args:
        size: The width of the embedded vectors.
        heads: The number of heads.
        base: Of the wavelengths.

    Raises:
        ValueError: The size of a head is odd.
    """

    equation = "R_i q and R_j k, R_p: rotation of the pair (2m, 2m+1) by p / base^(2m/d)"
    source = "Su et al. 2021, eq. 14 to 16"
    in_attention = True

    def __init__(self, size: int, heads: int, base: float = 10000.0) -> None:
        super().__init__(size, heads)
        need_positive(self, base=base)
        if size // heads % 2:
            raise unfit(self, "heads of an even size, for pairs to rotate", f"{size} / {heads}")
        self.base = base

    def rotate(self, vectors: Tensor, start: int = 0) -> Tensor:
        count, size = vectors.shape[-2:]
        angles = position_angles(count, size, start, self.base, vectors.device)
        sine, cosine = angles.sin().to(vectors), angles.cos().to(vectors)
        even, odd = vectors[..., 0::2], vectors[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)
