"""Sinusoidal: sines and cosines of geometrically increasing wavelengths."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention.checks import unfit
from seq2seq_attn.attention.position import Position


class Sinusoidal(Position):
    """x_p + PE(p), PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)).

    (Vaswani et al. 2017, sec. 3.5.) No parameters, any length.

    Args:
        size: d, the width of the embedded vectors.
        heads: The number of heads, which has no effect.

    Raises:
        ValueError: The size is odd.
    """

    equation = "x + PE(p), PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d))"
    source = "Vaswani et al. 2017, sec. 3.5"

    def __init__(self, size: int, heads: int = 1) -> None:
        super().__init__(size, heads)
        if size % 2:
            raise unfit(self, "an even size, for pairs of sine and cosine", size)

    def add(self, vectors: Tensor, start: int = 0) -> Tensor:
        return vectors + sinusoids(vectors.shape[1], self.size, start, vectors.device).to(vectors)


def sinusoids(count: int, size: int, start: int, device: torch.device) -> Tensor:
    """PE (count, size) in float64, from position `start`."""
    angles = position_angles(count, size, start, 10000.0, device)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def position_angles(count: int, size: int, start: int, base: float, device: torch.device) -> Tensor:
    """p / base^(2i/size) (count, size / 2) for the positions p = start, start + 1, ..., in float64.

    In float32 an angle of 3,000 would be off by 2e-4, and so would its sine. A device without float64, which is Apple's
    GPU, gets angles on the CPU.
    """
    place = torch.device("cpu") if device.type == "mps" else device
    positions = torch.arange(start, start + count, dtype=torch.float64, device=place)
    frequencies = base ** -(torch.arange(0, size, 2, dtype=torch.float64, device=place) / size)
    return positions[:, None] * frequencies
