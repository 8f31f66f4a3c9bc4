"""The recurrent encoder-decoder as a `Seq2Seq`, and its readouts, which compute the features of a prediction."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource, Summary
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoder
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderState
from seq2seq_attn.models.seq2seq import Decoded, EmbeddingTables, Seq2Seq, Step


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


class RecurrentMemory(NamedTuple):
    """B encoded sources."""

    source: PreparedSource  # as the context prepared it
    initial: Tensor  # (B, hidden_size): H_0

    def select(self, rows: Tensor) -> RecurrentMemory:
        return RecurrentMemory(self.source.select(rows), self.initial.index_select(0, rows))


class RecurrentSeq2Seq(Seq2Seq):
    """p(y | x) = prod_i softmax(V t_i + b)_{y_i}, with t_i from the decoder's readout and H_0 = tanh(W C + b).

    H_0 depends on C, the summary of the encoder's states, whatever context the decoder has: the arms of an ablation
    differ by their context alone.
    """

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: Encoder,
        summary: Summary,
        target_embedding: Embedding,
        decoder: Decoder,
        readout: DeepOutput | PlainOutput,
        output: nn.Linear,
        *,
        state_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.encoder = encoder
        self.summary = summary
        self.initial = nn.Linear(encoder.state_size, decoder.hidden_size)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.readout = readout
        self.output = output
        self.state_dropout = nn.Dropout(state_dropout)

    def encode(self, source: Tokens) -> RecurrentMemory:
        return self.encode_embedded(self.embed_source(source), source)

    def embed_source(self, source: Tokens) -> Tensor:
        embedded: Tensor = self.source_embedding(source.tokens)
        return embedded

    def encode_embedded(self, embedded: Tensor, source: Tokens) -> RecurrentMemory:
        is_token = source.is_token
        states = self.encoder(embedded, source.lengths)
        states = self.state_dropout(states)
        prepared = self.decoder.context.prepare(states, is_token=is_token)
        return RecurrentMemory(prepared, torch.tanh(self.initial(self.summary(states, is_token))))

    def start(self, memory: RecurrentMemory) -> DecoderState:
        return self.decoder.start(memory.initial, memory.source)

    def step(self, tokens: Tensor, state: DecoderState, memory: RecurrentMemory) -> Step:
        embedded = self.target_embedding(tokens)
        state, output = self.decoder.advance(self.decoder.input_gates(embedded), state, memory.source)
        features = self.readout(output.hidden, output.context, embedded)
        return Step(self.project(features), state, output.weights)

    def decode(self, inputs: Tensor, memory: RecurrentMemory) -> Decoded:
        # Time first, so that the tensors of a step are contiguous.
        embedded = self.target_embedding(inputs.t())
        output = self.decoder.run(self.decoder.input_gates(embedded), self.start(memory), memory.source)
        features = self.readout(output.hidden, output.context, embedded)
        return Decoded(features.transpose(0, 1), output.weights.transpose(0, 1))

    def contexts_that_read(self) -> list[Context]:
        context = self.decoder.context
        return [context] if context.reads_source else []

    def sources_read(self, memory: RecurrentMemory) -> list[PreparedSource]:
        return [memory.source for _ in self.contexts_that_read()]

    def encoder_states(self, source: Tokens) -> Tensor:
        states: Tensor = self.encoder(self.embed_source(source), source.lengths)
        return states

    def embedding_tables(self) -> EmbeddingTables:
        return EmbeddingTables(self.source_embedding.table, self.target_embedding.table)
