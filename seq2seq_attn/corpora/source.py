"""What an encoder reads: a batch of sources; of token ids, or of anything else that a front end makes."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from seq2seq_attn.corpora.encoded import Items, padded
from seq2seq_attn.corpora.vocabulary import PAD

_Self = TypeVar("_Self")
_Tokens = TypeVar("_Tokens", bound="Tokens")
_Frames = TypeVar("_Frames", bound="Frames")


class Source(Protocol):
    """A batch of B sources: an immutable record of tensors with one row each, padded to the longest.

    `Tokens` and `Frames` are two; a record of your own is a `NamedTuple` with these three members.
    """

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, on the CPU: what batches are sorted by, and what limits the length of a translation."""
        ...

    def to(self: _Self, device: torch.device | str) -> _Self:
        """The record with its tensors on the device; the lengths stay on the CPU, where packing needs them."""
        ...

    def select(self: _Self, rows: Tensor) -> _Self:
        """The record with only these rows, in this order, padded to the longest of them.

        `rows` (M,) int64 on the CPU may repeat a row.
        """
        ...


class Tokens(NamedTuple):
    """A batch of sentences that each end in `</s>`, padded on the right."""

    tokens: Tensor  # (B, L) int64; values on padding are never used
    lengths: Tensor  # (B,) int64, on the CPU; `</s>` included, so at least 1

    @property
    def is_token(self) -> Tensor:
        """(B, L) bool, True at tokens, False on padding."""
        return token_mask(self.lengths, self.tokens)

    @property
    def placed(self) -> tuple[Tensor, Tensor]:
        """Where the M tokens are among the B * L positions, row by row, and the tokens themselves: (M,) int64 each.

        The places follow from the lengths: selecting by `is_token` would wait for an accelerator to count them.
        """
        is_token = torch.arange(self.tokens.shape[1]) < self.lengths[:, None]
        places = is_token.flatten().nonzero()[:, 0].to(self.tokens.device, non_blocking=True)
        return places, self.tokens.flatten().index_select(0, places)

    def to(self: _Tokens, device: torch.device | str) -> _Tokens:
        """The record with its tokens on the device; the lengths stay on the CPU, where packing needs them."""
        return self._replace(tokens=self.tokens.to(device, non_blocking=True))

    def select(self: _Tokens, rows: Tensor) -> _Tokens:
        """The record with only these rows (M,), in this order, padded to the longest of them."""
        lengths = self.lengths[rows]
        return self._replace(tokens=self.tokens[rows.to(self.tokens.device), : int(lengths.max())], lengths=lengths)


class Frames(NamedTuple):
    """A batch of sequences of frames, such as those of sounds, padded on the right."""

    frames: Tensor  # (B, L, F) float; values on padding are never used
    lengths: Tensor  # (B,) int64, on the CPU; at least 1

    @property
    def is_frame(self) -> Tensor:
        """(B, L) bool, True at frames, False on padding."""
        return token_mask(self.lengths, self.frames)

    def to(self: _Frames, device: torch.device | str) -> _Frames:
        """The record with its frames on the device; the lengths stay on the CPU, where packing needs them."""
        return self._replace(frames=self.frames.to(device, non_blocking=True))

    def select(self: _Frames, rows: Tensor) -> _Frames:
        """The record with only these rows (M,), in this order, padded to the longest of them."""
        lengths = self.lengths[rows]
        return self._replace(frames=self.frames[rows.to(self.frames.device), : int(lengths.max())], lengths=lengths)


class Pixels(Frames):
    """A batch of images of the same height, whose frames (B, W, height, channels) are their columns, left to right."""


def token_mask(lengths: Tensor, padded: Tensor) -> Tensor:
    """(B, L) bool on the device of `padded` (B, L, ...): True at the first `lengths` (B,) positions of each row."""
    positions = torch.arange(padded.shape[1], device=padded.device)
    return positions < lengths.to(padded.device, non_blocking=True)[:, None]


def pad(sentences: Items, device: torch.device | str = "cpu") -> Tokens:
    """A batch of sentences, each the token ids of a line, which end in `</s>`; the lengths stay on the CPU.

    UserError if a sentence has no token at all.
    """
    tokens, lengths = padded(sentences, PAD)
    return Tokens(torch.from_numpy(tokens.astype(np.int64)).to(device), torch.from_numpy(lengths))
