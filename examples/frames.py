"""A source that is not text, in one file: arrays of frames, and an encoder that joins two frames in one state.

    source: {kind: frames.py:FramesConfig, features: 40}
    model: {encoder: {kind: frames.py:JoinedFramesConfig, state_size: 256}}

Each line of a source file is the path of an array with a row for each frame, as NumPy saves it. The package has parts
for this, `source.kind: frames` and `model.encoder.kind: linear`, which also normalize the frames and put a recurrent
network or a Transformer above them; this file shows how little a part of one's own needs. Its batches are those of the
package, so its front end fits the package's encoders of frames, and its encoder the package's front ends.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from seq2seq_attn.corpora.encoded import Items, padded
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig
from seq2seq_attn.corpora.source import Frames, token_mask
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.encoder import Encoded, Encoder, EncoderConfig


class FramesFrontEnd(FrontEnd):
    """A line is the path of an array (L, F), which is scaled."""

    def __init__(self, size: int, scale: float) -> None:
        self._size, self.scale = size, scale

    @property
    def size(self) -> int:
        return self._size

    def rules(self) -> Any:
        return self.size, self.scale

    def encode(self, line: str) -> Any:
        try:
            frames = np.load(line)
        except (OSError, ValueError) as error:
            raise UserError(f"{line}: not an array of frames: {error}") from None
        if frames.ndim != 2 or frames.shape[1] != self.size:
            raise UserError(f"{line}: frames of shape {frames.shape}, and source.features is {self.size}")
        return (frames * self.scale).astype(np.float32)

    def collate(self, items: Items) -> Frames:
        return Frames(*map(torch.from_numpy, padded(items)))


class FramesConfig(FrontEndConfig):
    kind: Literal["scaled_frames"] = "scaled_frames"
    makes: ClassVar[type] = Frames
    features: int  # of a frame
    scale: float = 1.0

    def build(self, lines: Any) -> FramesFrontEnd:
        return FramesFrontEnd(self.features, self.scale)


class JoinedFrames(Encoder):
    """h_k = tanh(W [x_2k-1; x_2k]): half as many states as frames; a last one alone is joined with zeros."""

    def __init__(self, features: int, state_size: int) -> None:
        super().__init__()
        self.state_size = state_size
        self.layer = nn.Linear(2 * features, state_size)

    def forward(self, source: Frames) -> Encoded:
        frames = source.frames.masked_fill(~source.is_frame[:, :, None], 0.0)
        frames = nn.functional.pad(frames, (0, 0, 0, frames.shape[1] % 2))
        states = self.layer(frames.unflatten(1, (-1, 2)).flatten(2)).tanh()
        return Encoded(states, token_mask((source.lengths + 1) // 2, states))


class JoinedFramesConfig(EncoderConfig):
    kind: Literal["joined_frames"] = "joined_frames"
    reads: ClassVar[type] = Frames
    state_size: int = 12

    def build(self, source_size: int, embedding: Any, dropout: Any, layer_norm: bool = False) -> JoinedFrames:
        return JoinedFrames(source_size, self.state_size)
