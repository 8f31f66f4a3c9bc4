"""The recurrent encoder-decoder, and its readouts, which compute the features of a prediction."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource, Summary
from seq2seq_attn.corpora.source import Source
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoded, Encoder
from seq2seq_attn.models.head import Head, Read
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderState
from seq2seq_attn.models.seq2seq import Decoded, EncoderDecoder, Memory, Step


class DeepOutput(nn.Module):
    """t_i = tanh(W [H_i; C_i; E y_{i-1}] + b)   (Pascanu et al. 2014; Bahdanau et al. 2015, A.2.2).

    Bahdanau et al. have maxout for tanh, and their t_i uses the state before the update; here it is H_i, which depends
    on C_i (their eq. 4).
    """

    def __init__(
        self, hidden_size: int, context_size: int, embedding_size: int, size: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.combine = nn.Linear(hidden_size + context_size + embedding_size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        features: Tensor = self.dropout(torch.tanh(self.combine(torch.cat((hidden, context, embedded), dim=-1))))
        return features


class PlainOutput(nn.Module):
    """t_i = H_i: the decoder's output is projected directly, as in Luong et al. 2015, eq. 6."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        features: Tensor = self.dropout(hidden)
        return features


class RecurrentSource(NamedTuple):
    """B encoded sources, as the decoder reads them."""

    prepared: PreparedSource  # by the context
    initial: Tensor  # (B, hidden_size): H_0

    def select(self, rows: Tensor) -> RecurrentSource:
        return RecurrentSource(self.prepared.select(rows), self.initial.index_select(0, rows))


class RecurrentSeq2Seq(EncoderDecoder):
    """p(y | x) = prod_i p(y_i | t_i), with t_i from the decoder's readout and H_0 = tanh(W C + b).

    H_0 depends on C, the summary of the encoder's states, whatever context the decoder has: the arms of an ablation
    differ by their context alone.
    """

    def __init__(
        self,
        encoder: Encoder,
        summary: Summary,
        target_embedding: Embedding,
        decoder: Decoder,
        readout: DeepOutput | PlainOutput,
        head: Head,
        *,
        state_dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder, target_embedding, head)
        self.summary = summary
        self.initial = nn.Linear(encoder.state_size, decoder.hidden_size)
        self.decoder = decoder
        self.readout = readout
        self.state_dropout = nn.Dropout(state_dropout)

    def prepare(self, encoded: Encoded) -> RecurrentSource:
        states, is_state = self.state_dropout(encoded.states), encoded.is_state
        prepared = self.decoder.context.prepare(states, is_token=is_state)
        return RecurrentSource(prepared, torch.tanh(self.initial(self.summary(states, is_state))))

    def start(self, memory: Memory) -> DecoderState:
        return self.decoder.start(memory.source.initial, memory.source.prepared)

    def step(self, tokens: Tensor, state: DecoderState, memory: Memory) -> Step:
        embedded = self.target_embedding(tokens)
        state, output = self.decoder.advance(self.decoder.input_gates(embedded), state, memory.source.prepared)
        parts = output.hidden, output.context, embedded
        read = Read(self.readout(*parts), output.weights, parts)
        return Step(self.next_logits(read, memory), state, output.weights)

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        # Time first, so that the tensors of a step are contiguous.
        embedded = self.target_embedding(inputs.t())
        output = self.decoder.run(self.decoder.input_gates(embedded), self.start(memory), memory.source.prepared)
        parts = output.hidden, output.context, embedded
        features = self.readout(*parts).transpose(0, 1)
        return Decoded(features, output.weights.transpose(0, 1), tuple(part.transpose(0, 1) for part in parts))

    def summary_of(self, source: Source) -> Tensor:
        states, is_state = self.encoder_states(source)
        summary: Tensor = self.summary(states, is_state)
        return summary

    @property
    def repeats_summary(self) -> bool:
        return not self.decoder.context.reads_source and self.decoder.context.value_size > 0

    def contexts_that_read(self) -> list[Context]:
        context = self.decoder.context
        return [context] if context.reads_source else []
