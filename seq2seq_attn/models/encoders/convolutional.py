"""Strided convolutions over time and frequency, in front of any network."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoders.frames import EmbeddedFramesConfig, filled
from seq2seq_attn.strict import Size


class Convolutions(nn.Module):
    """x = W z_N + b, z_n = max(0, K_n * z_{n-1} + b_n), z_0 the frames: with N = 2, a quarter as many vectors.

    The kernels of all N layers are 3 x 3 with a stride of 2 over time and features (Dong et al. 2018, sec. 3.2); with
    one dimension they are 3 frames wide, with a stride of 2, and read all features.

    Args:
        features: Of a frame.
        size: Of x.
        layers: N.
        channels: Of every z_n.
        dimensions: 2 over time and features; 1 over time.
    """

    def __init__(self, features: int, size: int, *, layers: int, channels: int, dimensions: int) -> None:
        super().__init__()
        self.size, self.dimensions = size, dimensions
        make = nn.Conv2d if dimensions == 2 else nn.Conv1d
        first = 1 if dimensions == 2 else features
        sizes = [first, *[channels] * layers]
        self.channels = sizes[:-1]
        self.layers = nn.ModuleList(
            make(below, above, kernel_size=3, stride=2, padding=1) for below, above in pairwise(sizes)
        )
        bands = -(-features // 2**layers) if dimensions == 2 else 1
        self.projection = nn.Linear(channels * bands, size)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (B, ⌈L / 2^N⌉, size) of frames (B, L, F), and the lengths ⌈lengths / 2^N⌉; lengths on the CPU."""
        vectors = frames
        for layer, channels in zip(self.layers, self.channels, strict=True):
            below = filled(vectors, lengths)  # zeros on padding are what a convolution sees beyond the end of a batch
            if self.dimensions == 2:  # (B, C, L, F), with the channels of a frame side by side
                planes = below.reshape(len(below), below.shape[1], channels, -1).transpose(1, 2)
                vectors = layer(planes).relu().transpose(1, 2).flatten(2)
            else:
                vectors = layer(below.transpose(1, 2)).relu().transpose(1, 2)
            lengths = (lengths + 1) // 2
        projected: Tensor = self.projection(vectors)
        return projected, lengths


class ConvolutionalConfig(EmbeddedFramesConfig):
    """`{kind: convolutional, network: {kind: recurrent}}`: strided layers, then a network."""

    kind: Literal["convolutional"] = "convolutional"
    layers: Annotated[int, Field(ge=1, le=8)] = 2  # each halves the number of frames
    channels: Size = 32  # of each layer
    dimensions: Literal[1, 2] = 2  # 2: over time and features, which are halved as well; 1: over time

    @property
    def frames_per_state(self) -> int:
        return int(2**self.layers)

    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> Convolutions:
        options = {"layers": self.layers, "channels": self.channels, "dimensions": self.dimensions}
        return Convolutions(source_size, size, **options)
