"""C, the whole sentence as one vector: the decoder's first state is computed from it, and `FixedContext` repeats it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.normalizers.softmax import Softmax, uniform_weights
from seq2seq_attn.attention.shapes import IsToken, States, StateSummary


class Summary(nn.Module, ABC):
    """Maps the states of a sentence to one vector of the same width; padding has no effect."""

    @abstractmethod
    def forward(self, states: States, is_token: IsToken) -> StateSummary:
        """Summarizes sentences.

        Args:
            states: h (B, S, H).
            is_token: True on tokens (B, S); every sentence needs one.

        Returns:
            C (B, H).
        """


class LastState(Summary):
    """The last state of the encoder (Sutskever et al. 2014; Cho et al. 2014).

    Args:
        directions: 1: the state at the last token. 2: states are [forward; backward], and each direction stops at its
            own end: forward at the last token, backward at the first (position 0 where padding is on the right).

    Raises:
        ValueError: Another number of directions; when called, a state that cannot be halved.
    """

    def __init__(self, directions: int = 1) -> None:
        super().__init__()
        if directions not in (1, 2):
            raise unfit(self, "directions = 1 or 2", directions)
        self.directions = directions

    def forward(self, states: States, is_token: IsToken) -> StateSummary:
        sentences, positions = (torch.arange(size, device=states.device) for size in is_token.shape)
        last = (positions * is_token).amax(dim=1)
        if self.directions == 1:
            return states[sentences, last]
        if states.shape[-1] % 2:
            raise unfit("LastState(directions=2)", "an even state size", states.shape[-1])
        forwards, backwards = states.chunk(2, dim=-1)
        first = is_token.int().argmax(dim=1)  # argmax returns the first maximum
        return torch.cat((forwards[sentences, last], backwards[sentences, first]), dim=-1)


class MeanState(Summary):
    """The mean of the states over the tokens."""

    def forward(self, states: States, is_token: IsToken) -> StateSummary:
        return torch.bmm(uniform_weights(states, is_token), states).squeeze(1)


class LearnedPool(Summary):
    """Σ_j a_j h_j, a_j = softmax_j(v · tanh(W h_j)) (Lin et al. 2017, eq. 5); W (size, size), v (size,).

    Args:
        size: The width of a state.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        need_positive(self, size=size)
        self.hidden_layer = nn.Linear(size, size, bias=False)
        self.v = nn.Linear(size, 1, bias=False)
        self.normalizer = Softmax()

    def forward(self, states: States, is_token: IsToken) -> StateSummary:
        scores = self.v(torch.tanh(self.hidden_layer(states))).transpose(1, 2)  # (B, 1, S)
        return torch.bmm(self.normalizer(scores, is_token[:, None]), states).squeeze(1)


def summary_of(kind: Literal["last", "mean", "learned"], state_size: int, directions: int) -> Summary:
    """Returns the summary with this name.

    Args:
        kind: Its name in a configuration.
        state_size: The width of a state.
        directions: 1, or 2 for states [forward; backward].
    """
    if kind == "last":
        return LastState(directions)
    return MeanState() if kind == "mean" else LearnedPool(state_size)
