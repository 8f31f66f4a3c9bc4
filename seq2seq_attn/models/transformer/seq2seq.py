"""The Transformer: any encoder, and a decoder of self-attention layers."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoded, Encoder
from seq2seq_attn.models.head import Head, Read
from seq2seq_attn.models.seq2seq import Decoded, EncoderDecoder, Memory, Step
from seq2seq_attn.models.transformer.decoder import TransformerDecoder


class TransformerSource(NamedTuple):
    """B encoded sources, as each layer of the decoder reads them."""

    prepared: tuple[PreparedSource, ...]

    def select(self, rows: Tensor) -> TransformerSource:
        return TransformerSource(tuple(each.select(rows) for each in self.prepared))


class TransformerSeq2Seq(EncoderDecoder):
    """p(y | x) = prod_i p(y_i | H_i), with H_i from the decoder's last layer."""

    def __init__(
        self,
        encoder: Encoder,
        target_embedding: Embedding,
        decoder: TransformerDecoder,
        head: Head,
        *,
        readout_dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder, target_embedding, head)
        self.decoder = decoder
        self.readout_dropout = nn.Dropout(readout_dropout)

    def prepare(self, encoded: Encoded) -> TransformerSource:
        return TransformerSource(self.decoder.prepare(encoded.states, encoded.is_state))

    def start(self, memory: Memory) -> Any:
        return self.decoder.start(memory.source.prepared)

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        hidden, state, weights = self.decoder.step(self.target_embedding(tokens), state, memory.source.prepared)
        return Step(self.next_logits(Read(self.readout_dropout(hidden), weights), memory), state, weights)

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        hidden, weights = self.decoder(self.target_embedding(inputs), memory.source.prepared, need_weights)
        return Decoded(self.readout_dropout(hidden), weights)

    def contexts_that_read(self) -> list[Context]:
        return [context for context in self.decoder.contexts() if context.reads_source]
