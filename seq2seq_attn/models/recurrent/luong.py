"""The decoder of Luong et al. 2015: update, then read the source with H_i."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.models.seq2seq import read_source


class LuongDecoder(Decoder):
    """H_i = cell(E y_{i-1}, H_{i-1});  C_i = read(H_i);  H~_i = tanh(W [C_i; H_i])   (Luong et al. 2015, eq. 5).

    The prediction is made from H~_i, which is `hidden` in the decoder's output. Row i of the weights belongs to the
    prediction of y_i, as in every decoder here. With input feeding (sec. 3.3), H~_{i-1} is part of the input of step i;
    without it no query depends on an earlier context, and one call attends for all T steps.
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int, *, input_feeding: bool = True) -> None:
        super().__init__(cell, context)
        self.from_token = nn.Linear(embedding_size, cell.gate_size)
        self.from_feed = nn.Linear(cell.hidden_size, cell.gate_size, bias=False) if input_feeding else None
        self.combine = nn.Linear(context.value_size + cell.hidden_size, cell.hidden_size)

    def start(self, hidden: Tensor, source: PreparedSource) -> DecoderState:
        state = super().start(hidden, source)
        return state if self.from_feed is None else state._replace(feed=torch.zeros_like(hidden))

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        if self.from_feed is not None and state.feed is not None:
            input_gates = input_gates + self.from_feed(state.feed)
        hidden = self.cell(input_gates, state.hidden)
        context, weights, history = read_source(self.context, self.cell.output(hidden), source, state.history)
        attentional = self.attentional(context, self.cell.output(hidden))
        feed = None if self.from_feed is None else attentional
        return DecoderState(hidden, history, feed), DecoderOutput(attentional, context, weights)

    def attentional(self, context: Tensor, hidden: Tensor) -> Tensor:
        """H~ = tanh(W [C; H]), eq. 5."""
        return torch.tanh(self.combine(torch.cat((context, hidden), dim=-1)))


class LuongConfig(DecoderConfig):
    """`{kind: luong, input_feeding: true}`."""

    kind: Literal["luong"] = "luong"
    input_feeding: bool = True  # the next step reads H~ of this one

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> LuongDecoder:
        return LuongDecoder(make_cell(), context, embedding_size, input_feeding=self.input_feeding)
