"""The configuration of the recurrent family, and how a model is built from it."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import SerializeAsAny

from seq2seq_attn import attention
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.context_config import ContextConfig, build_context
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.models.recurrent.conditional import ConditionalConfig
from seq2seq_attn.models.recurrent.decoders import DecoderConfig
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoderConfig
from seq2seq_attn.models.recurrent.hard import HardSeq2Seq
from seq2seq_attn.models.recurrent.seq2seq import DeepOutput, PlainOutput, RecurrentSeq2Seq


class RecurrentConfig(ModelConfig):
    """Recurrent encoder-decoder: GRU, LSTM, plain RNN, minGRU or SRU."""

    kind: Literal["recurrent"] = "recurrent"
    layer_norm: bool = False  # of the gates of the decoder's cells, and of the outputs of the encoder's layers
    encoder: SerializeAsAny[EncoderConfig] = RecurrentEncoderConfig()
    summary: Literal["last", "mean", "learned"] = "last"  # C, which sets H_0 = tanh(W C)
    context: ContextConfig = ContextConfig()
    decoder: SerializeAsAny[DecoderConfig] = ConditionalConfig()
    dropout: DropoutConfig = DropoutConfig()

    @property
    def max_positions(self) -> tuple[int | None, int | None]:
        return self.encoder.max_positions, None

    @property
    def decoder_size(self) -> int:
        return self.decoder.hidden_size

    def with_decoder_size(self, size: int) -> RecurrentConfig:
        return self.model_copy(update={"decoder": self.decoder.model_copy(update={"hidden_size": size})})

    @property
    def features(self) -> int:
        """How many numbers the readout gives to the projection to the vocabulary."""
        if self.decoder.readout == "plain":
            return self.decoder.hidden_size
        return self.decoder.readout_size or self.embedding_size

    def build(self, source_size: Any, target_size: int, joint: bool) -> RecurrentSeq2Seq:
        tied = self.tied(joint, self.features)
        embeddings = self.build_embeddings(self.dropout, tied, source_size, target_size, joint)
        encoder = self.encoder.build(source_size, embeddings[0], self.dropout, self.layer_norm)
        summary = attention.summary_of(self.summary, encoder.state_size, encoder.directions)
        query_size = self.decoder.hidden_size
        context = build_context(self.context, query_size, encoder.state_size, encoder.directions, summary)
        make_cell = partial(self.decoder.make_cell, self.layer_norm, self.dropout.state)
        decoder = self.decoder.build(make_cell, context, self.embedding_size)
        readout = self._readout(context)
        inputs = decoder.hidden_size + decoder.context_size + self.embedding_size
        head = self.build_head(self.features, embeddings[1], tied, inputs)
        model = RecurrentSeq2Seq if self.decoder.sums_values else HardSeq2Seq
        return model(encoder, summary, embeddings[1], decoder, readout, head, state_dropout=self.dropout.state)

    def _readout(self, context: attention.Context) -> DeepOutput | PlainOutput:
        if self.decoder.readout == "plain":
            return PlainOutput(dropout=self.dropout.readout)
        sizes = self.decoder.hidden_size, context.value_size, self.embedding_size, self.features
        return DeepOutput(*sizes, dropout=self.dropout.readout)
