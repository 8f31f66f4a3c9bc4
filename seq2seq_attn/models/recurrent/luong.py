"""The decoder of Luong et al. 2015: update, then read the source with H_i."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor

from seq2seq_attn.attention import Context, PreparedSource, Source
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderConfig, DecoderOutput, DecoderState
from seq2seq_attn.ops.decoder import scoring, why_not
from seq2seq_attn.ops.dispatch import changed, fusible
from seq2seq_attn.ops.input_feeding import FeedingWeights, feeding_sequence
from seq2seq_attn.ops.layer_norm import norm_weights
from seq2seq_attn.ops.linear import Linear


@fusible
class LuongDecoder(Decoder):
    """H_i = cell(E y_{i-1}, H_{i-1});  C_i = read(H_i);  H~_i = tanh(W [C_i; H_i])   (Luong et al. 2015, eq. 5).

    The prediction is made from H~_i, which is `hidden` in the decoder's output. Row i of the weights belongs to the
    prediction of y_i, as in every decoder here. With input feeding (sec. 3.3), H~_{i-1} is part of the input of step i;
    without it no query depends on an earlier context, and one call attends for all T steps.
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int, *, input_feeding: bool = True) -> None:
        super().__init__(cell, context)
        self.from_token = Linear(embedding_size, cell.gate_size)
        self.from_feed = Linear(cell.hidden_size, cell.gate_size, bias=False) if input_feeding else None
        self.combine = Linear(context.value_size + cell.hidden_size, cell.hidden_size)

    def start(self, hidden: Tensor, source: PreparedSource) -> DecoderState:
        state = super().start(hidden, source)
        return state if self.from_feed is None else state._replace(feed=torch.zeros_like(hidden))

    def input_gates(self, embedded: Tensor) -> Tensor:
        gates: Tensor = self.from_token(embedded)
        return gates

    def advance(
        self, input_gates: Tensor, state: DecoderState, source: PreparedSource
    ) -> tuple[DecoderState, DecoderOutput]:
        if self.from_feed is not None and state.feed is not None:
            input_gates = input_gates + self.from_feed(state.feed)
        hidden = self.cell(input_gates, state.hidden)
        context, weights, history = self.read(self.cell.output(hidden), source, state.history)
        attentional = self.attentional(context, self.cell.output(hidden))
        feed = None if self.from_feed is None else attentional
        return DecoderState(hidden, history, feed), DecoderOutput(attentional, context, weights)

    def run(self, input_gates: Tensor, state: DecoderState, source: PreparedSource) -> DecoderOutput:
        if self.why_not() is not None:
            return super().run(input_gates, state, source)
        if self.from_feed is not None:
            initial = state.hidden, torch.zeros_like(state.hidden) if state.feed is None else state.feed
            return DecoderOutput(*feeding_sequence(input_gates, *initial, cast(Source, source), self._weights()))
        hidden = self.cell.output(self.cell.run(input_gates, state.hidden))
        context, weights = (part.transpose(0, 1) for part in self.context(hidden.transpose(0, 1), source))
        return DecoderOutput(self.attentional(context, hidden), context, weights)

    def why_not(self) -> str | None:
        """Why a known target is decoded by a loop over steps; None if it is decoded in one operation."""
        return changed(self, deep=False) if self.from_feed is None else why_not(self, [self.cell], self.context)

    def _weights(self) -> FeedingWeights:
        """Where `why_not` is None, with input feeding."""
        cell, context, from_feed = (cast(Any, part) for part in (self.cell, self.context, self.from_feed))
        recurrent, combine, query_and_v = cell.recurrent, self.combine, scoring(context.scorer)
        weights = from_feed.weight, recurrent.weight, recurrent.bias, combine.weight, combine.bias, *query_and_v
        return FeedingWeights(*weights, norm_weights(cell.input_norm), norm_weights(cell.recurrent_norm))

    def attentional(self, context: Tensor, hidden: Tensor) -> Tensor:
        """H~ = tanh(W [C; H]), eq. 5."""
        return torch.tanh(self.combine(torch.cat((context, hidden), dim=-1)))


class LuongConfig(DecoderConfig):
    """`{kind: luong, input_feeding: true}`."""

    kind: Literal["luong"] = "luong"
    input_feeding: bool = True  # the next step reads H~ of this one

    def build(self, make_cell: Callable[[], Cell], context: Context, embedding_size: int) -> LuongDecoder:
        return LuongDecoder(make_cell(), context, embedding_size, input_feeding=self.input_feeding)
