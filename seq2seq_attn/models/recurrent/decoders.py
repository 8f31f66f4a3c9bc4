"""What the three decoders share: the contract, and the record of what is carried from step to step.

A decoder is given the source as a context part (attention or a kin of it) sees it, and the embedded tokens. All of it
that does not hang on the previous state is computed before the loop (`token_share`), all that nothing hangs on after
it (readout and projection, in `translator.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context, History, PreparedSource, each_tensor
from seq2seq_attn.models.recurrent.cells import Cell


class DecoderState(NamedTuple):
    """What the next step needs, for N hypotheses."""

    hidden: Tensor  # (N, state_size) of the cell
    history: History  # of the context: tensors (N, ...), or nothing
    feed: Tensor | None = None  # (N, F) fed back into the next step's input, with input feeding

    def select(self, rows: Tensor) -> DecoderState:
        feed = None if self.feed is None else self.feed.index_select(0, rows)
        history = each_tensor(lambda tensor: tensor.index_select(0, rows), self.history)
        return DecoderState(self.hidden.index_select(0, rows), history, feed)


class Reading(NamedTuple):
    """What one step, or all of them, gave: H and C are what the prediction is made from."""

    hidden: Tensor  # (..., hidden_size): H_i
    context: Tensor  # (..., context_size): C_i
    weights: Tensor  # (..., S)


class Decoder(nn.Module, ABC):
    """A recurrent decoder over any context: how H_i comes from H_{i-1}, y_{i-1} and C_i."""

    def __init__(self, cell: Cell, context: Context) -> None:
        super().__init__()
        self.cell = cell
        self.context = context
        self.hidden_size = cell.hidden_size
        self.context_size = context.value_size

    @abstractmethod
    def token_share(self, embedded: Tensor) -> Tensor:
        """The tokens' share (..., gate_size) of the first cell's gates, for any number of steps in one product."""

    @abstractmethod
    def advance(self, token_share: Tensor, state: DecoderState, source: PreparedSource) -> tuple[DecoderState, Reading]:
        """One step for N hypotheses over the B sentences of `source`: token_share (N, gate_size)."""

    def start(self, hidden: Tensor, source: PreparedSource) -> DecoderState:
        """The state before the first step, from H_0 (B, hidden_size)."""
        return DecoderState(self.cell.initial(hidden), each_tensor(_of_rows, self.context.start(source)))

    def run(self, token_share: Tensor, state: DecoderState, source: PreparedSource) -> Reading:
        """All steps with known tokens, token_share (T, B, gate_size): a reading of (T, B, ...) tensors."""
        readings = []
        for share in token_share.unbind(0):
            state, reading = self.advance(share, state, source)
            readings.append(reading)
        return Reading(*(torch.stack(part) for part in zip(*readings, strict=True)))

    def read(self, queries: Tensor, source: PreparedSource, history: History) -> tuple[Tensor, Tensor, History]:
        """Context (N, context_size), weights (N, S) and the next history, for queries (N, query_size).

        The N = B * K hypotheses of B sentences are queries on the same source rows, which are never copied.
        """

        def of_sentences(tensor: Tensor) -> Tensor:
            return tensor.view(source.sentences, -1, *tensor.shape[1:])

        context, weights, history = self.context.step(of_sentences(queries), source, each_tensor(of_sentences, history))
        return context.flatten(0, 1), weights.flatten(0, 1), each_tensor(_of_rows, history)


def _of_rows(tensor: Tensor) -> Tensor:
    """(N, ...) of a history's (B, K, ...)."""
    return tensor.flatten(0, 1)
