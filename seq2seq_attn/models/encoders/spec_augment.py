"""SpecAugment: in training, bands of frequencies and stretches of time are masked."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2seq_attn.strict import Strict

Masks = Annotated[int, Field(ge=0, le=100)]
Width = Annotated[int, Field(ge=0)]


class SpecAugmentConfig(Strict):
    """The masks of Park et al. 2019, for each recording of a batch; the defaults are those of their policy LD."""

    frequency_masks: Masks = 2  # m_F
    frequency_width: Width = 27  # F: a mask has from 0 to this many features
    time_masks: Masks = 2  # m_T
    time_width: Width = 100  # T: a mask has from 0 to this many frames
    time_share: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0  # p: and at most this share of the frames


class SpecAugment(nn.Module):
    """In training, sets features f_0 .. f_0 + f - 1 and frames t_0 .. t_0 + t - 1 to 0 (Park et al. 2019, sec. 2).

    For each mask f is uniform over 0 .. F and f_0 over 0 .. ν - f - 1, of ν features; t is uniform over
    0 .. min(T, p τ) and t_0 over 0 .. τ - t - 1, of the τ frames of the recording. After normalization 0 is the mean.
    There is no time warping. Random numbers are those of torch's generator of the device, as in dropout.
    """

    def __init__(self, config: SpecAugmentConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """The frames (B, L, F) with their masks; lengths (B,) on the CPU."""
        if not self.training:
            return frames
        config, (rows, positions, features) = self.config, frames.shape
        lengths = lengths.to(frames.device)
        times = stretches(lengths, config.time_masks, config.time_width, config.time_share, positions)
        every = torch.full((rows,), features, device=frames.device)
        bands = stretches(every, config.frequency_masks, config.frequency_width, 1.0, features)
        return frames.masked_fill(times[:, :, None] | bands[:, None, :], 0.0)


def stretches(lengths: Tensor, count: int, width: int, share: float, size: int) -> Tensor:
    """(B, size) bool, True in `count` random stretches of each row, within its first `lengths` (B,) places."""
    draws = torch.rand((2, len(lengths), count), device=lengths.device, dtype=torch.double)
    lengths = lengths[:, None]
    widest = (lengths * share).long().clamp(max=width)
    widths = (draws[0] * (widest + 1)).long()
    first = (draws[1] * (lengths - widths)).long()
    places = torch.arange(size, device=lengths.device)[:, None, None]
    return ((first <= places) & (places < first + widths)).any(dim=-1).t()
