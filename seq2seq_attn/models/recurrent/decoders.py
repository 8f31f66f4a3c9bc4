"""The base class of recurrent decoders, their configuration, and the state that they carry from step to step.

The inputs of a decoder are the source as its context prepared it and the embedded tokens. Whatever does not depend on
the previous state is computed before the loop (`input_gates`); whatever no later step depends on is computed after it
(readout and projection, in `seq2seq.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import model_validator
from torch import Tensor, nn

from seq2seq_attn.attention import Context, History, PreparedSource, each_tensor
from seq2seq_attn.models.recurrent.cells import CELLS, Cell, StackedCell
from seq2seq_attn.models.seq2seq import start_reading
from seq2seq_attn.strict import Layers, Size
from seq2seq_attn.strict.tagged import Tagged

CellName = Literal["gru", "lstm", "rnn", "mingru", "sru"]


class DecoderState(NamedTuple):
    """The input of the next step, for N hypotheses."""

    hidden: Tensor  # (N, state_size): the state of the cell
    history: History  # of the context: tensors (N, ...), or nothing
    feed: Tensor | None = None  # (N, hidden_size): H~ of the previous step, with input feeding

    def select(self, rows: Tensor) -> DecoderState:
        feed = None if self.feed is None else self.feed.index_select(0, rows)
        history = each_tensor(lambda tensor: tensor.index_select(0, rows), self.history)
        return DecoderState(self.hidden.index_select(0, rows), history, feed)


class DecoderOutput(NamedTuple):
    """The result of one step, or of all steps; the prediction is made from H and C."""

    hidden: Tensor  # (..., hidden_size): H_i
    context: Tensor  # (..., context_size): C_i
    weights: Tensor  # (..., S): attention weights


class Decoder(nn.Module, ABC):
    """A recurrent decoder with any context; subclasses define how H_i depends on H_{i-1}, y_{i-1} and C_i.

    A subclass has a layer `from_token` from embedded tokens to the gate inputs of its first cell, or its own
    `input_gates`.
    """

    from_token: nn.Module

    def __init__(self, cell: Cell, context: Context) -> None:
        super().__init__()
        self.cell = cell
        self.context = context
        self.hidden_size = cell.hidden_size
        self.context_size = context.value_size

    def input_gates(self, embedded: Tensor) -> Tensor:
        """The first cell's gate inputs (..., gate_size) from embedded tokens (..., E), for any number of steps."""
        gates: Tensor = self.from_token(embedded)
        return gates

    @abstractmethod
    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        """One step of N hypotheses over the B sentences of `source`, with input_gates (N, gate_size)."""

    def start(self, hidden: Tensor, source: PreparedSource) -> DecoderState:
        """The state before the first step, from H_0 (B, hidden_size)."""
        return DecoderState(self.cell.initial(hidden), start_reading(self.context, source))

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        """All T steps with known tokens, input_gates (T, B, gate_size); the output's tensors are (T, B, ...)."""
        outputs = []
        for gates in input_gates.unbind(0):
            state, output = self.advance(gates, state, source)
            outputs.append(output)
        return DecoderOutput(*(torch.stack(part) for part in zip(*outputs, strict=True)))


class DecoderConfig(Tagged):
    """Options of all decoders; every kind of decoder has a subclass with its own options and `build`."""

    sums_values: ClassVar[bool] = True  # False: predictions from single positions are summed (`HardSeq2Seq`)

    kind: str = "conditional"  # how reading and updating alternate
    cell: CellName = "gru"  # kind of recurrent cell
    hidden_size: Size = 256  # of H_i
    layers: Layers = 1  # stacked cells: the context is an input of the first, the query is the output of the last
    residual: bool = False  # around every layer except the first
    readout: Literal["deep", "plain"] = "deep"  # tanh(W [H_i; C_i; y_{i-1}]), or H_i itself
    readout_size: Size | None = None  # of the deep readout; None: the size of the embeddings

    @model_validator(mode="after")
    def _residual_needs_layers(self) -> DecoderConfig:
        check_residual(self.residual, self.layers)
        return self

    @model_validator(mode="after")
    def _readout_size_needs_a_deep_readout(self) -> DecoderConfig:
        if self.readout == "plain" and self.readout_size is not None:
            raise ValueError("readout_size is the size of readout=deep; leave it out")
        return self

    @abstractmethod
    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> Decoder:
        """The decoder; each call of `make_cell` returns a new cell with random parameters."""

    def make_cell(self, layer_norm: bool, dropout: float) -> Cell:
        """One cell, or a stack of `layers` cells with `dropout` between them."""
        cells = [CELLS[self.cell](self.hidden_size, layer_norm) for _ in range(self.layers)]
        return cells[0] if self.layers == 1 else StackedCell(cells, residual=self.residual, dropout=dropout)


def check_residual(residual: bool, layers: int) -> None:
    """ValueError if there is no second layer for a residual connection."""
    if residual and layers == 1:
        raise ValueError("residual=true needs two layers, as only the second has a residual connection; set layers=2")
