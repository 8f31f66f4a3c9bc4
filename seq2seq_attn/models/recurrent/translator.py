"""The recurrent encoder-decoder: parts put together behind the translator's interface."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import PreparedSource, Summary
from seq2seq_attn.models.recurrent.decoders import Decoder, DecoderState
from seq2seq_attn.models.recurrent.embedding import Embedding
from seq2seq_attn.models.recurrent.readout import DeepOutput, PlainOutput
from seq2seq_attn.models.recurrent.reversed_encoder import AnyEncoder
from seq2seq_attn.models.translator import Decoded, Sentences, Step, Translator
from seq2seq_attn.ops.dropout import Dropout
from seq2seq_attn.ops.linear import Linear


class RecurrentMemory(NamedTuple):
    """What decoding needs of B sources."""

    source: PreparedSource  # what the context part prepared
    initial: Tensor  # (B, hidden_size): H_0

    def select(self, rows: Tensor) -> RecurrentMemory:
        return RecurrentMemory(self.source.select(rows), self.initial.index_select(0, rows))


class RecurrentTranslator(Translator):
    """p(y | x) = prod_i softmax(V t_i), with t_i from the decoder, and H_0 = tanh(W C) in every arm of an ablation.

    C, the summary of the states, sets H_0 whatever the decoder reads afterwards: arms differ by their context alone.
    """

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: AnyEncoder,
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
        self.initial = Linear(encoder.state_size, decoder.hidden_size)
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.readout = readout
        self.output = output
        self.state_dropout = Dropout(state_dropout)

    def encode(self, source: Sentences) -> RecurrentMemory:
        return self.encode_embedded(self.source_embedding(source.tokens), source)

    def encode_embedded(self, embedded: Tensor, source: Sentences) -> RecurrentMemory:
        """The memory of sources that are embedded already, (B, S, E): who does that can ask for the gradient there."""
        is_token = source.is_token
        states = self.encoder(embedded, source.lengths)
        states = self.state_dropout(states)
        prepared = self.decoder.context.prepare(states, is_token=is_token)
        return RecurrentMemory(prepared, torch.tanh(self.initial(self.summary(states, is_token))))

    def start(self, memory: RecurrentMemory) -> DecoderState:
        return self.decoder.start(memory.initial, memory.source)

    def step(self, tokens: Tensor, state: DecoderState, memory: RecurrentMemory) -> Step:
        embedded = self.target_embedding(tokens)
        state, reading = self.decoder.advance(self.decoder.token_share(embedded), state, memory.source)
        features = self.readout(reading.hidden, reading.context, embedded)
        return Step(self.project(features), state, reading.weights)

    def decode(self, inputs: Tensor, memory: RecurrentMemory) -> Decoded:
        # Time first: the tensors of one step lie together.
        embedded = self.target_embedding(inputs.t())
        reading = self.decoder.run(self.decoder.token_share(embedded), self.start(memory), memory.source)
        features = self.readout(reading.hidden, reading.context, embedded)
        return Decoded(features.transpose(0, 1), reading.weights.transpose(0, 1))
