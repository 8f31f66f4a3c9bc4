"""A source that is read from its last word to its first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder
from seq2seq_attn.ops.dispatch import known


@known
class ReversedEncoder(nn.Module):
    """An encoder of one direction reads x_n, ..., x_1, `</s>` of a sentence x_1, ..., x_n, `</s>`.

    (Sutskever et al. 2014, sec. 3.3.) The states are put back: h_j stands where x_j is written, so attention, windows,
    alignments and whatever shows them count positions of the sentence as written. `</s>` is still read last, and its
    state is C as before.
    """

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.directions = encoder.directions
        self.state_size = encoder.state_size

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, input_size); lengths (B,) on the CPU."""
        order = reading_order(lengths, embedded.shape[1]).to(embedded.device)
        return _reordered(self.encoder(_reordered(embedded, order), lengths), order)


AnyEncoder = RecurrentEncoder | ReversedEncoder


def reading_order(lengths: Tensor, positions: int) -> Tensor:
    """(B, S): the position that is read at each step. It is its own inverse; `</s>` and padding stay in place.

    >>> reading_order(torch.tensor([4, 2]), 5).tolist()
    [[2, 1, 0, 3, 4], [0, 1, 2, 3, 4]]
    """
    places, words = torch.arange(positions), lengths[:, None] - 1  # without `</s>`
    return torch.where(places < words, words - 1 - places, places)


def _reordered(vectors: Tensor, order: Tensor) -> Tensor:
    return torch.take_along_dim(vectors, order[..., None], dim=1)
