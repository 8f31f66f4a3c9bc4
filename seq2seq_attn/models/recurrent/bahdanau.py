"""The decoder of Bahdanau et al. 2015: read the source with H_{i-1}, then update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource, Source
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.ops.decoder import DecoderWeights, decoder_sequence, scoring, why_not
from seq2seq_attn.ops.dispatch import changed, fusible
from seq2seq_attn.ops.layer_norm import norm_weights
from seq2seq_attn.ops.linear import Linear


@fusible
class BahdanauDecoder(Decoder):
    """C_i = read(H_{i-1});  H_i = cell([E y_{i-1}; C_i], H_{i-1})   (Bahdanau et al. 2015, eq. 4-6 and A.1.2).

    The query of step i is H_{i-1}, the state before y_{i-1} is consumed; row i of the weights belongs to the prediction
    of y_i.
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int) -> None:
        super().__init__(cell, context)
        self.from_token = Linear(embedding_size, cell.gate_size)
        self.from_context = ContextGates(context.value_size, cell.gate_size)

    def input_gates(self, embedded: Tensor) -> Tensor:
        gates: Tensor = self.from_token(embedded)
        return gates

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        context, weights, history = self.read(self.cell.output(state.hidden), source, state.history)
        hidden = self.cell(self.from_context(context, input_gates), state.hidden)
        return DecoderState(hidden, history), DecoderOutput(self.cell.output(hidden), context, weights)

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        if why_not(self, [self.cell], self.context) is None:
            return DecoderOutput(*decoder_sequence(input_gates, state.hidden, cast(Source, source), self._weights()))
        if self.context.reads_query or changed(self, deep=False) or changed(self.context):
            return super().run(input_gates, state, source)
        # The context is the same at every step, so one read before the first step is enough.
        query = self.cell.output(state.hidden)[:, None]
        context, weights = (part.transpose(0, 1) for part in self.context(query, source))
        hidden = self.cell.output(self.cell.run(self.from_context(context, input_gates), state.hidden))
        return DecoderOutput(hidden, *(part.expand(len(hidden), -1, -1) for part in (context, weights)))

    def why_not(self) -> str | None:
        """Why a known target is decoded by a loop over steps; None if it is decoded in one operation."""
        if self.context.reads_query:
            return why_not(self, [self.cell], self.context)
        return changed(self, deep=False) or changed(self.context)

    def _weights(self) -> DecoderWeights:
        """Where `why_not` is None and the context reads the query."""
        cell, context, from_context = (cast(Any, part) for part in (self.cell, self.context, self.from_context))
        recurrent, query_and_v = cell.recurrent, scoring(context.scorer)
        return DecoderWeights(
            *(from_context.map.weight, recurrent.weight, recurrent.bias, *query_and_v),
            input_norm=norm_weights(cell.input_norm),
            recurrent_norm=norm_weights(cell.recurrent_norm),
        )


@fusible
class ContextGates(nn.Module):
    """g + W C (N, gate_size): adds the context C (N, context_size) to the gates' inputs g; g alone if C has width 0."""

    def __init__(self, context_size: int, gate_size: int) -> None:
        super().__init__()
        self.map = Linear(context_size, gate_size, bias=False) if context_size else None

    def forward(self, context: Tensor, input_gates: Tensor) -> Tensor:
        return input_gates if self.map is None else input_gates + self.map(context)


class BahdanauConfig(DecoderConfig):
    """`{kind: bahdanau}`."""

    kind: Literal["bahdanau"] = "bahdanau"

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> BahdanauDecoder:
        return BahdanauDecoder(make_cell(), context, embedding_size)
