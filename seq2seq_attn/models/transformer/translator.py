"""The Transformer as a `Seq2Seq`: any encoder, and a decoder of self-attention layers."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoder
from seq2seq_attn.models.seq2seq import Decoded, EmbeddingTables, Seq2Seq, Step
from seq2seq_attn.models.transformer.decoder import TransformerDecoder


class TransformerMemory(NamedTuple):
    """B encoded sources, as each layer of the decoder reads them."""

    sources: tuple[PreparedSource, ...]

    def select(self, rows: Tensor) -> TransformerMemory:
        return TransformerMemory(tuple(source.select(rows) for source in self.sources))


class TransformerSeq2Seq(Seq2Seq):
    """p(y | x) = prod_i softmax(V H_i + b)_{y_i}, with H_i from the decoder's last layer."""

    def __init__(
        self,
        source_embedding: Embedding,
        encoder: Encoder,
        target_embedding: Embedding,
        decoder: TransformerDecoder,
        output: nn.Linear,
        *,
        readout_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.encoder = encoder
        self.target_embedding = target_embedding
        self.decoder = decoder
        self.output = output
        self.readout_dropout = nn.Dropout(readout_dropout)

    def encode(self, source: Tokens) -> TransformerMemory:
        return self.encode_embedded(self.embed_source(source), source)

    def embed_source(self, source: Tokens) -> Tensor:
        embedded: Tensor = self.source_embedding(source.tokens)
        return embedded

    def encode_embedded(self, embedded: Tensor, source: Tokens) -> TransformerMemory:
        states = self.encoder(embedded, source.lengths)
        return TransformerMemory(self.decoder.prepare(states, source.is_token))

    def start(self, memory: TransformerMemory) -> Any:
        return self.decoder.start(memory.sources)

    def step(self, tokens: Tensor, state: Any, memory: TransformerMemory) -> Step:
        hidden, state, weights = self.decoder.step(self.target_embedding(tokens), state, memory.sources)
        return Step(self.project(self.readout_dropout(hidden)), state, weights)

    def decode(self, inputs: Tensor, memory: TransformerMemory) -> Decoded:
        hidden, weights = self.decoder(self.target_embedding(inputs), memory.sources)
        return Decoded(self.readout_dropout(hidden), weights)

    def features(self, inputs: Tensor, memory: TransformerMemory) -> Tensor:
        hidden, _ = self.decoder(self.target_embedding(inputs), memory.sources, need_weights=False)
        features: Tensor = self.readout_dropout(hidden)
        return features

    def contexts_that_read(self) -> list[Context]:
        return [context for context in self.decoder.contexts() if context.reads_source]

    def sources_read(self, memory: TransformerMemory) -> list[PreparedSource]:
        pairs = zip(self.decoder.contexts(), memory.sources, strict=True)
        return [source for context, source in pairs if context.reads_source]

    def encoder_states(self, source: Tokens) -> Tensor:
        states: Tensor = self.encoder(self.embed_source(source), source.lengths)
        return states

    def embedding_tables(self) -> EmbeddingTables:
        return EmbeddingTables(self.source_embedding.table, self.target_embedding.table)
