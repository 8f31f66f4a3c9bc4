"""An encoder of images whose states are the cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from seq2seq_attn.attention.positions.sinusoidal import sinusoids
from seq2seq_attn.corpora.source import Pixels, token_mask
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import Encoded, Encoder, EncoderConfig, Network, SequenceEncoder, TokenEncoderConfig
from seq2seq_attn.models.encoders.frames import filled
from seq2seq_attn.strict import Size

Stride = tuple[Annotated[int, Field(ge=1, le=3)], Annotated[int, Field(ge=1, le=3)]]  # down, across


class ConvolutionalLayer(nn.Module):
    """relu(norm(W * x)) at every `stride`-th pixel, where W is 3 by 3 and norm is over the channels of a pixel.

    So a pixel depends on no other than those that W covers: neither padding nor another image changes it.
    """

    def __init__(self, input_size: int, size: int, stride: Stride) -> None:
        super().__init__()
        down, across = stride
        self.convolution = nn.Conv2d(input_size, size, 3, stride=(across, down), padding=1, bias=False)
        self.norm = nn.LayerNorm(size)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, W, height, channels) that are 0 on padding; of the same kind, except on padding."""
        convolved = self.convolution(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        features: Tensor = self.norm(convolved).relu()
        return features


class ConvolutionalGrid(Encoder):
    """The states are the cells of the last convolutional layer (Xu et al. 2015, sec. 3.1.1), row by row.

    A cell is h = a + PE(row, column), where one half of the numbers has the sinusoids of the row and the other one
    those of the column (Parmar et al. 2018, sec. 3.1); or it is the state of a network that reads these cells column by
    column (Deng et al. 2017, sec. 3.1, read row by row). The first and the last cell are the same in both orders.

    Args:
        channels: Of the images, then of each layer.
        strides: Of each layer, (down, across): the size of an image is divided by them, and rounded up.
        network: Over the cells; None: the cells are the states.
    """

    def __init__(
        self, channels: Sequence[int], strides: Sequence[Stride], network: SequenceEncoder | None = None
    ) -> None:
        super().__init__()
        sizes = zip(channels[:-1], channels[1:], strides, strict=True)
        self.layers = nn.ModuleList(ConvolutionalLayer(*each) for each in sizes)
        self.strides, self.network = strides, network
        self.state_size = channels[-1] if network is None else network.state_size
        self.directions = 1 if network is None else network.directions
        self.reads_as_states = network is None  # which reads the cells column by column

    def rows(self, source: Pixels) -> int:
        rows = source.frames.shape[2]
        for down, _ in self.strides:
            rows = -(-rows // down)
        return rows

    def forward(self, source: Pixels) -> Encoded:
        # Zeros right of an image are what convolutions have beyond its edges.
        cells, widths = filled(source.frames, source.lengths), source.lengths
        for layer, (_, across) in zip(self.layers, self.strides, strict=True):
            widths = -(-widths // across)
            cells = filled(layer(cells), widths)
        cells = cells + _places(cells)
        columns, rows = cells.shape[1:3]
        if self.network is not None:
            cells = self.network(cells.flatten(1, 2), widths * rows).unflatten(1, (columns, rows))
        is_state = token_mask(widths, cells)[:, None].expand(-1, rows, -1)
        return Encoded.packed(cells.transpose(1, 2).flatten(1, 2), is_state.flatten(1))


def _places(cells: Tensor) -> Tensor:
    """PE (W, rows, channels) of cells (B, W, rows, channels)."""
    _, columns, rows, size = cells.shape
    of_row = sinusoids(rows, size // 2, 0, cells.device).expand(columns, -1, -1)
    of_column = sinusoids(columns, size // 2, 0, cells.device)[:, None].expand(-1, rows, -1)
    return torch.cat([of_row, of_column], dim=2).to(cells)


class ConvolutionalGridConfig(EncoderConfig):
    """`{kind: convolutional_grid, channels: [32, 64]}`: two layers, and a cell for every 4 by 4 pixels of an image.

    Without a `network` no state has seen all of the image: set `summary: mean` or `learned`.
    """

    kind: Literal["convolutional_grid"] = "convolutional_grid"

    reads: ClassVar[type] = Pixels

    channels: Annotated[tuple[Size, ...], Field(min_length=1, max_length=16)] = (32, 64, 128)  # of each layer
    strides: tuple[Stride, ...] | None = None  # of each layer, down and across; null: [2, 2] of each
    network: Network | None = None  # over the cells, column by column, as in {kind: recurrent}; null: none

    @field_validator("channels")
    @classmethod
    def _can_be_placed(cls, channels: tuple[int, ...]) -> tuple[int, ...]:
        if channels[-1] % 4:
            raise ValueError(f"{channels[-1]} of the last layer; give a multiple of 4, for sines and cosines of places")
        return channels

    @model_validator(mode="after")
    def _has_strides(self) -> ConvolutionalGridConfig:
        if self.strides is None:
            self.__dict__["strides"] = ((2, 2),) * len(self.channels)  # the record is frozen
        elif len(self.strides) != len(self.channels):
            raise ValueError(f"strides: {len(self.strides)} for {len(self.channels)} layers; give one for each layer")
        return self

    def build(
        self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False
    ) -> ConvolutionalGrid:
        _, channels = source_size  # height, channels
        network = None
        if self.network is not None:
            assert isinstance(self.network, TokenEncoderConfig)
            network = self.network.network(
                self.channels[-1], dropout=dropout.state, layer_norm=layer_norm, is_first=False
            )
        return ConvolutionalGrid((channels, *self.channels), self.strides or (), network)
