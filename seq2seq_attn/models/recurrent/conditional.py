"""The conditional GRU of Nematus, two cells with attention between them; and deep transitions, with more after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.recurrent.bahdanau import ContextGates
from seq2seq_attn.models.recurrent.cells import CELLS, Cell, ScanCell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.models.seq2seq import read_source
from seq2seq_attn.strict import Layers


class ConditionalDecoder(Decoder):
    """H'_i = cell_1(E y_{i-1}, H_{i-1});  C_i = read(H'_i);  H_i = cell_2(C_i, H'_i)   (Sennrich et al. 2017, sec. 2).

    The query depends on y_{i-1} but not on y_i; row i of the weights belongs to the prediction of y_i. With `deeper`
    cells, a deep transition, H_i = cell_L(0, ... cell_3(0, cell_2(C_i, H'_i)))   (Miceli Barone et al. 2017).

    All cells have the same state size, as the state passes through them in turn: with several layers, all are stacks.
    """

    def __init__(
        self, cell: Cell, second: Cell, context: Context, embedding_size: int, *, deeper: Sequence[Cell] = ()
    ) -> None:
        super().__init__(cell, context)
        self.second = second
        self.deeper = nn.ModuleList(deeper)
        self.from_token = nn.Linear(embedding_size, cell.gate_size)
        self.from_context = ContextGates(context.value_size, second.gate_size)
        self.second_bias = nn.Parameter(self.from_token.weight.new_zeros(second.gate_size))

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        between = self.cell(input_gates, state.hidden)
        context, weights, history = read_source(self.context, self.cell.output(between), source, state.history)
        gates = self.from_context(context, self.second_bias.to(context.dtype).expand(between.shape[0], -1))
        hidden = self.second(gates, between)
        for cell in self.deeper:
            hidden = cell(torch.zeros_like(gates), hidden)
        return DecoderState(hidden, history), DecoderOutput(self.cell.output(hidden), context, weights)


class ConditionalConfig(DecoderConfig):
    """`{kind: conditional, transitions: 2}`."""

    kind: Literal["conditional"] = "conditional"
    transitions: Layers = Field(default=2, ge=2)  # cells that a state passes in a step; above 2: a deep transition

    @model_validator(mode="after")
    def _deep_transitions_need_a_recurrent_product(self) -> ConditionalConfig:
        if self.transitions > 2 and issubclass(CELLS[self.cell], ScanCell):
            raise ValueError(
                f"transitions={self.transitions}: {self.cell} computes its gates from its input alone, and the third "
                f"cell has none; set transitions=2, or cell=gru"
            )
        return self

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> ConditionalDecoder:
        first, second, *deeper = (make_cell() for _ in range(self.transitions))
        return ConditionalDecoder(first, second, context, embedding_size, deeper=deeper)
