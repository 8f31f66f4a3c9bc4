"""Images as a source, in one file: a line is the path of an array, and the states are the cells of a grid.

    source: {kind: grid.py:ImagesConfig, height: 28}
    model: {encoder: {kind: grid.py:GridConfig, state_size: 256}}

Each line of a source file is the path of an array (height, width) of gray values, as NumPy saves it. The package reads
pictures by a front end and an encoder of its own (docs/sources.md); this file shows that yours need nothing else.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.display import Display, picture_of
from seq2seq_attn.corpora.encoded import Items, padded
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig
from seq2seq_attn.corpora.source import token_mask
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.encoder import Encoded, Encoder, EncoderConfig


class Images(NamedTuple):
    """A batch of images of the same height."""

    columns: Tensor  # (B, W, height)
    lengths: Tensor  # (B,) int64, on the CPU: widths

    def to(self, device: Any) -> Images:
        return Images(self.columns.to(device), self.lengths)

    def select(self, rows: Tensor) -> Images:
        lengths = self.lengths[rows]
        return Images(self.columns[rows.to(self.columns.device), : int(lengths.max())], lengths)


class ImagesFrontEnd(FrontEnd):
    """The positions of an image are its columns."""

    def __init__(self, height: int) -> None:
        self.height = height

    @property
    def size(self) -> int:
        return self.height

    def rules(self) -> Any:
        return self.height

    def encode(self, line: str) -> Any:
        try:
            image = np.load(line)
        except (OSError, ValueError) as error:
            raise UserError(f"{line}: not an array of gray values: {error}") from None
        if image.ndim != 2 or len(image) != self.height:
            raise UserError(f"{line}: an array of shape {image.shape}, and source.height is {self.height}")
        return image.T.astype(np.float32)

    def display(self, line: str) -> Display:
        return Display(picture_of(self.encode(line))[::-1])  # the first row is on top, other than of frames

    def collate(self, items: Items) -> Images:
        return Images(*map(torch.from_numpy, padded(items)))


class ImagesConfig(FrontEndConfig):
    kind: Literal["images"] = "images"
    height: int  # pixels

    def build(self, lines: Any) -> ImagesFrontEnd:
        return ImagesFrontEnd(self.height)


class Grid(Encoder):
    """One state for each cell of two by two pixels, row by row (Xu et al. 2015, sec. 3.1.1, with one convolution).

    A cell sees four by four pixels and its place. The cells of a narrow image have padding after each of their rows, in
    a batch with a wider one; `packed` puts it behind all of them.
    """

    def __init__(self, state_size: int) -> None:
        super().__init__()
        self.state_size = state_size
        self.convolution = nn.Conv2d(3, state_size, kernel_size=4, stride=2, padding=1)

    def rows(self, source: Images) -> int:
        return source.columns.shape[2] // 2

    def forward(self, source: Images) -> Encoded:
        is_column = token_mask(source.lengths, source.columns)
        pixels = source.columns.masked_fill(~is_column[:, :, None], 0.0).transpose(1, 2)  # (B, height, W)
        height, width = pixels.shape[1:]
        down = torch.arange(height, device=pixels.device)[:, None] / height
        across = torch.arange(width, device=pixels.device) / 10
        places = [place.expand(height, width).expand_as(pixels) * is_column[:, None] for place in (down, across)]
        cells = self.convolution(nn.functional.pad(torch.stack([pixels, *places], dim=1), (0, width % 2))).tanh()
        rows = cells.shape[2]
        is_cell = token_mask((source.lengths + 1) // 2, cells[:, 0, 0])[:, None].expand(-1, rows, -1)
        return Encoded.packed(cells.flatten(2).transpose(1, 2), is_cell.flatten(1))


class GridConfig(EncoderConfig):
    kind: Literal["grid"] = "grid"
    reads: ClassVar[type] = Images
    state_size: int = 16

    def build(self, source_size: int, embedding: Any, dropout: Any, layer_norm: bool = False) -> Grid:
        return Grid(self.state_size)
