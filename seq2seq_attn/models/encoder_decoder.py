"""What the families have in common: any encoder, embedded targets, a decoder, and any head."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoded, Encoder, TokenEncoder
from seq2seq_attn.models.head import Head
from seq2seq_attn.models.seq2seq import EmbeddingTables, Memory, Seq2Seq


class EncoderDecoder(Seq2Seq):
    """An encoder, whose states a decoder reads; subclasses define how."""

    def __init__(self, encoder: Encoder, target_embedding: Embedding, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.target_embedding = target_embedding
        self.head = head

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Any:
        """The states as the decoder reads them (Rows), computed once."""

    def encode(self, source: Source) -> Memory:
        return self._memory(self.encoder(source), source)

    def embed_source(self, source: Source) -> Tensor:
        return self.encoder.embed(source)

    def encode_embedded(self, embedded: Tensor, source: Source) -> Memory:
        return self._memory(self.encoder.encode_embedded(embedded, source), source)

    def _memory(self, encoded: Encoded, source: Source) -> Memory:
        return Memory(self.prepare(encoded), encoded.is_state, self.head.prepare(source))

    def encoder_states(self, source: Source) -> Encoded:
        encoded: Encoded = self.encoder(source)
        return encoded

    def embedding_tables(self) -> EmbeddingTables:
        if not isinstance(self.encoder, TokenEncoder):
            raise self._missing("embedding_tables for a source without tokens")
        return EmbeddingTables(self.encoder.embedding.table, self.target_embedding.table)
