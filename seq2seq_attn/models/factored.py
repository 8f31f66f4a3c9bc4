"""Embeddings of words with factors, below any encoder of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seq2seq_attn.corpora.factored import FactoredTokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.embedding import DropoutConfig, Embedding, table_of
from seq2seq_attn.models.encoder import EncoderConfig, Network, TokenEncoder, TokenEncoderConfig
from seq2seq_attn.strict import Size


class SummedEmbedding(Embedding):
    """E_0[y] + E_1[f_1] + ... + E_F[f_F] of a token y with F factors.

    Args:
        sizes: The numbers of tokens, and of values of each factor.
        size: Of every vector.
        **dropout: As for `Embedding`; whole words are dropped with their factors.
    """

    def __init__(self, sizes: Sequence[int], size: int, **dropout: float) -> None:
        super().__init__(sizes[0], size, **dropout)
        self.factors = nn.ModuleList(table_of(count, size) for count in sizes[1:])

    def look_up(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., size) of the ids (..., 1 + F) of tokens and factors."""
        token, *factors = tokens.unbind(dim=-1)
        embedded: Tensor = self.table(token)
        for table, factor in zip(self.factors, factors, strict=True):
            embedded = embedded + table(factor)
        return embedded


class ConcatenatedEmbedding(Embedding):
    """[E_0[y]; E_1[f_1]; ...; E_F[f_F]] of a token y with F factors (Sennrich & Haddow 2016).

    Args:
        sizes: The numbers of tokens, and of values of each factor.
        size: Of the whole vector; the token has what the factors leave.
        factor_sizes: Of the vectors of the factors.
        **dropout: As for `Embedding`; whole words are dropped with their factors.
    """

    def __init__(self, sizes: Sequence[int], size: int, factor_sizes: Sequence[int], **dropout: float) -> None:
        super().__init__(sizes[0], size - sum(factor_sizes), **dropout)
        self.size = size
        self.factors = nn.ModuleList(map(table_of, sizes[1:], factor_sizes))

    def look_up(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., size) of the ids (..., 1 + F) of tokens and factors."""
        ids = tokens.unbind(dim=-1)
        return torch.cat([table(each) for table, each in zip((self.table, *self.factors), ids, strict=True)], dim=-1)


class FactoredEncoderConfig(EncoderConfig):
    """`{kind: factored, combine: concat, sizes: [16]}`: an encoder of tokens, which reads them with their factors."""

    kind: Literal["factored"] = "factored"

    reads: ClassVar[type] = FactoredTokens

    combine: Literal["sum", "concat"] = "sum"  # the embeddings of a token and of its factors
    sizes: tuple[Size, ...] = ()  # concat: of the embedding of each factor; the token has the rest of embedding_size
    encoder: Network = Field(default_factory=lambda: EncoderConfig.model_validate({}))  # above them

    @model_validator(mode="after")
    def _sizes_are_those_of_concat(self) -> FactoredEncoderConfig:
        if bool(self.sizes) != (self.combine == "concat"):
            raise ValueError(
                "sizes belong to combine=concat, as in {combine: concat, sizes: [16]}; of a sum, all are equal"
            )
        return self

    @property
    def max_positions(self) -> int | None:
        return self.encoder.max_positions

    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> Embedding:
        options = {"dropout": dropout.embedding, "word_dropout": dropout.word}
        if self.combine == "sum":
            return SummedEmbedding(source_size, size, **options)
        if len(self.sizes) != len(source_size) - 1 or sum(self.sizes) >= size:
            raise UserError(
                f"model.encoder.sizes={list(self.sizes)}: give one for each of source.factors={len(source_size) - 1}, "
                f"which together are less than model.embedding_size={size}"
            )
        return ConcatenatedEmbedding(source_size, size, self.sizes, **options)

    def build(
        self, source_size: Any, embedding: Embedding, dropout: DropoutConfig, layer_norm: bool = False
    ) -> TokenEncoder:
        assert isinstance(self.encoder, TokenEncoderConfig)
        return self.encoder.build(source_size, embedding, dropout, layer_norm)
