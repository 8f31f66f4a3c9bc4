"""The decoder of Bahdanau et al. 2015: read the source with H_{i-1}, then update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.models.seq2seq import read_source


class BahdanauDecoder(Decoder):
    """C_i = read(H_{i-1});  H_i = cell([E y_{i-1}; C_i], H_{i-1})   (Bahdanau et al. 2015, eq. 4-6 and A.1.2).

    The query of step i is H_{i-1}, the state before y_{i-1} is consumed; row i of the weights belongs to the prediction
    of y_i.
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int) -> None:
        super().__init__(cell, context)
        self.from_token = nn.Linear(embedding_size, cell.gate_size)
        self.from_context = ContextGates(context.value_size, cell.gate_size)

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        context, weights, history = read_source(self.context, self.cell.output(state.hidden), source, state.history)
        hidden = self.cell(self.from_context(context, input_gates), state.hidden)
        return DecoderState(hidden, history), DecoderOutput(self.cell.output(hidden), context, weights)


class ContextGates(nn.Module):
    """g + W C (N, gate_size): adds the context C (N, context_size) to the gates' inputs g; g alone if C has width 0."""

    def __init__(self, context_size: int, gate_size: int) -> None:
        super().__init__()
        self.map = nn.Linear(context_size, gate_size, bias=False) if context_size else None

    def forward(self, context: Tensor, input_gates: Tensor) -> Tensor:
        return input_gates if self.map is None else input_gates + self.map(context)


class BahdanauConfig(DecoderConfig):
    """`{kind: bahdanau}`."""

    kind: Literal["bahdanau"] = "bahdanau"

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> BahdanauDecoder:
        return BahdanauDecoder(make_cell(), context, embedding_size)
