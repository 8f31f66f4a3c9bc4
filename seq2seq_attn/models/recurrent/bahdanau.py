"""The decoder of Bahdanau et al. 2015: read the source with H_{i-1}, then update."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource, Source
from seq2seq_attn.models.recurrent.cells import Cell
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderState, Reading
from seq2seq_attn.ops.additive_sequence import AdditiveWeights, additive_sequence
from seq2seq_attn.ops.linear import Linear


class BahdanauDecoder(Decoder):
    """C_i = read(H_{i-1});  H_i = cell([E y_{i-1}; C_i], H_{i-1})   (Bahdanau et al. 2015, eq. 4-6 and A.1.2).

    The query of step i is the state *before* y_i, so row i of the weights tells where the model looked in order to
    predict y_i.
    """

    def __init__(self, cell: Cell, context: Context, embedding_size: int) -> None:
        super().__init__(cell, context)
        self.from_token = Linear(embedding_size, cell.gate_size)
        self.from_context = ContextShare(context.value_size, cell.gate_size)

    def token_share(self, embedded: Tensor) -> Tensor:
        share: Tensor = self.from_token(embedded)
        return share

    def advance(self, token_share: Tensor, state: DecoderState, source: PreparedSource) -> tuple[DecoderState, Reading]:
        context, weights, history = self.read(self.cell.output(state.hidden), source, state.history)
        hidden = self.cell(self.from_context(context, token_share), state.hidden)
        return DecoderState(hidden, history), Reading(self.cell.output(hidden), context, weights)

    def run(self, token_share: Tensor, state: DecoderState, source: PreparedSource) -> Reading:
        additive = self._additive_weights()
        if additive is not None:  # so the source is that of an `Attention`
            return Reading(*additive_sequence(token_share, state.hidden, cast(Source, source), additive))
        if self.context.reads_query:
            return super().run(token_share, state, source)
        # Nothing is asked of the state, so what is read is the same at every step, and known before the first.
        query = self.cell.output(state.hidden)[:, None]
        context, weights = (part.transpose(0, 1) for part in self.context(query, source))
        hidden = self.cell.output(self.cell.run(self.from_context(context, token_share), state.hidden))
        return Reading(hidden, *(part.expand(len(hidden), -1, -1) for part in (context, weights)))

    def _additive_weights(self) -> AdditiveWeights | None:
        """What `additive_sequence` takes, if it is the model that it computes."""
        energy = self.context.additive_form()
        if energy is None or not self.cell.is_gru or self.cell.layer_norm or self.from_context.map is None:
            return None
        return AdditiveWeights(*energy, self.from_context.map.weight, *self.cell.recurrent.parameters())


class ContextShare(nn.Module):
    """Adds the context's share W C to the tokens' share of the gates; a context of width 0 has none."""

    def __init__(self, context_size: int, gate_size: int) -> None:
        super().__init__()
        self.map = Linear(context_size, gate_size, bias=False) if context_size else None

    def forward(self, context: Tensor, token_share: Tensor) -> Tensor:
        return token_share if self.map is None else token_share + self.map(context)
