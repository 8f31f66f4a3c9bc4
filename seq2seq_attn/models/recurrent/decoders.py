"""What all recurrent decoders share: the contract, the configuration, and the state carried from step to step.

A decoder gets the source as its context has prepared it, and the embedded tokens. What does not depend on the previous
state is computed before the loop (`input_gates`), what no later step depends on after it (readout and projection, in
`translator.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from seq2seq_attn.attention import Context, History, PreparedSource, each_tensor
from seq2seq_attn.models.recurrent.cells import CELLS, Cell, StackedCell
from seq2seq_attn.strict import Tagged

CellName = Literal["gru", "lstm", "rnn"]


class DecoderState(NamedTuple):
    """What the next step needs, for N hypotheses."""

    hidden: Tensor  # (N, state_size) of the cell
    history: History  # of the context: tensors (N, ...), or nothing
    feed: Tensor | None = None  # (N, F) fed back into the next step's input, with input feeding

    def select(self, rows: Tensor) -> DecoderState:
        feed = None if self.feed is None else self.feed.index_select(0, rows)
        history = each_tensor(lambda tensor: tensor.index_select(0, rows), self.history)
        return DecoderState(self.hidden.index_select(0, rows), history, feed)


class DecoderOutput(NamedTuple):
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
    def input_gates(self, embedded: Tensor) -> Tensor:
        """The tokens' share (..., gate_size) of the first cell's gates, for any number of steps in one product."""

    @abstractmethod
    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        """One step for N hypotheses over the B sentences of `source`: input_gates (N, gate_size)."""

    def start(self, hidden: Tensor, source: PreparedSource) -> DecoderState:
        """The state before the first step, from H_0 (B, hidden_size)."""
        return DecoderState(self.cell.initial(hidden), each_tensor(_of_rows, self.context.start(source)))

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        """All steps with known tokens, input_gates (T, B, gate_size): a reading of (T, B, ...) tensors."""
        readings = []
        for share in input_gates.unbind(0):
            state, reading = self.advance(share, state, source)
            readings.append(reading)
        return DecoderOutput(*(torch.stack(part) for part in zip(*readings, strict=True)))

    def read(self, queries: Tensor, source: PreparedSource, history: History) -> tuple[Tensor, Tensor, History]:
        """Context (N, context_size), weights (N, S) and the next history, for queries (N, query_size).

        The N = B * K hypotheses of B sentences are queries on the same source rows, which are never copied.
        """

        def of_sentences(tensor: Tensor) -> Tensor:
            return tensor.view(source.sentences, -1, *tensor.shape[1:])

        context, weights, history = self.context(of_sentences(queries), source, each_tensor(of_sentences, history))
        return context.flatten(0, 1), weights.flatten(0, 1), each_tensor(_of_rows, history)


def _of_rows(tensor: Tensor) -> Tensor:
    """(N, ...) of a history's (B, K, ...)."""
    return tensor.flatten(0, 1)


class DecoderConfig(Tagged):
    """What every decoder is configured with; a kind of decoder is a subclass with its own options and `build`."""

    # Written for every kind until it became an option of `luong` alone.
    obsolete: ClassVar[dict[str, Any]] = {"input_feeding": True}

    kind: str = "bahdanau"
    cell: CellName = "gru"
    hidden_size: PositiveInt = 512
    layers: PositiveInt = 1  # cells on top of one another; the context enters the first, the last is the query
    residual: bool = False  # around every layer but the first
    readout: Literal["deep", "plain"] = "deep"
    readout_size: PositiveInt | None = None  # of the deep readout; None: the size of the embeddings

    @model_validator(mode="after")
    def _residual_needs_layers(self) -> DecoderConfig:
        check_residual(self.residual, self.layers)
        return self

    @abstractmethod
    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> Decoder:
        """The decoder; each call of `make_cell` draws a new cell of this configuration."""

    def make_cell(self, layer_norm: bool, dropout: float) -> Cell:
        """One cell, or a stack of `layers` cells with `dropout` between them."""
        cells = [CELLS[self.cell](self.hidden_size, layer_norm) for _ in range(self.layers)]
        return cells[0] if self.layers == 1 else StackedCell(cells, residual=self.residual, dropout=dropout)


def check_residual(residual: bool, layers: int) -> None:
    """ValueError where residual connections have nothing to connect."""
    if residual and layers == 1:
        raise ValueError("residual=true adds the input of a layer to its output from the second layer on; set layers=2")
