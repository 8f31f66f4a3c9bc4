"""Encoders of frames: what they share, and the simplest one, a network above one linear layer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Frames, token_mask
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import (
    Encoded,
    Encoder,
    EncoderConfig,
    Network,
    SequenceEncoder,
    TokenEncoderConfig,
)
from seq2seq_attn.models.encoders.spec_augment import SpecAugment, SpecAugmentConfig
from seq2seq_attn.strict import Size


class FrameEncoder(Encoder):
    """States of frames, which are masked at random in training; there may be fewer states than frames."""

    def __init__(self, masks: SpecAugmentConfig | None) -> None:
        super().__init__()
        self.masks = None if masks is None else SpecAugment(masks)

    def forward(self, source: Frames) -> Encoded:
        frames = source.frames if self.masks is None else self.masks(source.frames, source.lengths)
        states, lengths = self.read(frames, source.lengths)
        return Encoded(states, token_mask(lengths, states))

    @abstractmethod
    def read(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, S, state_size) of frames (B, L, F), and how many each has (B,); lengths (B,) on the CPU."""


class EmbeddedFrames(FrameEncoder):
    """A network above vectors of one frame or several.

    Args:
        embedding: Maps frames (B, L, F) and lengths (B,) to vectors (B, S, E) and their lengths, as `read` does.
        network: Reads the vectors.
        dropout: Of the vectors.
        masks: As for `FrameEncoder`.
    """

    def __init__(
        self, embedding: nn.Module, network: SequenceEncoder, dropout: float, masks: SpecAugmentConfig | None
    ) -> None:
        super().__init__(masks)
        self.embedding, self.network = embedding, network
        self.dropout = nn.Dropout(dropout)
        self.state_size, self.directions = network.state_size, network.directions

    def read(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        vectors, lengths = self.embedding(frames, lengths)
        return self.network(self.dropout(vectors), lengths), lengths


class FrameEncoderConfig(EncoderConfig):
    """What the encoders of frames share."""

    reads: ClassVar[type] = Frames

    network: Network = Field(default_factory=lambda: EncoderConfig.model_validate({}))  # in a pyramid: each layer
    spec_augment: SpecAugmentConfig | None = None  # masks in training; null: none

    @property
    @abstractmethod
    def frames_per_state(self) -> int:
        """How many frames have one state."""

    @property
    def max_positions(self) -> int | None:
        limit = self.network.max_positions
        return None if limit is None else limit * self.frames_per_state

    def new_network(self, size: int, dropout: DropoutConfig, layer_norm: bool) -> SequenceEncoder:
        """The network above vectors of this size."""
        assert isinstance(self.network, TokenEncoderConfig)
        return self.network.network(size, dropout=dropout.state, layer_norm=layer_norm, is_first=False)


class EmbeddedFramesConfig(FrameEncoderConfig):
    """Those with a network above vectors of `model.embedding_size`, which a kind defines in `build_embedding`."""

    @abstractmethod
    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> Any:
        """The `embedding` of `EmbeddedFrames`, and the size of its vectors."""

    def build(
        self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False
    ) -> EmbeddedFrames:
        network = self.new_network(embedding.size, dropout, layer_norm)
        return EmbeddedFrames(embedding, network, dropout.embedding, self.spec_augment)


class JoinedFrames(nn.Module):
    """x_k = W [f_{n(k-1)+1}; ...; f_{nk}] + b: one vector of every n frames; the last ones are joined with zeros."""

    def __init__(self, features: int, size: int, count: int) -> None:
        super().__init__()
        self.size, self.count = size, count
        self.layer = nn.Linear(count * features, size)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        joined, lengths = join(frames, lengths, self.count)
        return self.layer(joined), lengths


class LinearConfig(EmbeddedFramesConfig):
    """`{kind: linear, join: 3, network: {kind: recurrent}}`: an encoder of frames, or of three frames in one vector."""

    kind: Literal["linear"] = "linear"
    join: Size = 1  # adjacent frames in one vector

    @property
    def frames_per_state(self) -> int:
        return self.join

    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> JoinedFrames:
        return JoinedFrames(source_size, size, self.join)


def filled(vectors: Tensor, lengths: Tensor) -> Tensor:
    """The vectors (B, L, ...) with zeros on padding; lengths (B,) on the CPU."""
    is_vector = token_mask(lengths, vectors)
    return vectors.masked_fill(~is_vector.view(*is_vector.shape, *(1 for _ in vectors.shape[2:])), 0.0)


def join(vectors: Tensor, lengths: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Puts every `count` adjacent vectors in one, the last of a row with zeros.

    Args:
        vectors: (B, L, E), with anything on padding.
        lengths: (B,), on the CPU.
        count: n.

    Returns:
        (B, ⌈L / n⌉, n E), and the lengths ⌈lengths / n⌉.
    """
    missing = -vectors.shape[1] % count
    whole = torch.nn.functional.pad(filled(vectors, lengths), (0, 0, 0, missing))
    return whole.reshape(len(whole), -1, count * vectors.shape[2]), (lengths + count - 1) // count
