"""Token embeddings with dropout of single elements and of whole words."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2seq_attn.strict import Strict

PADDING = 1  # id of `<pad>` (corpora/vocabulary.py)

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class DropoutConfig(Strict):
    """Dropout probabilities: of single elements, except `word`, which is that of whole embedded words."""

    embedding: Probability = 0.3  # of the embedded tokens
    word: Probability = 0.0  # of whole embedded words
    state: Probability = 0.2  # of the encoder's states, and of what each layer passes on
    readout: Probability = 0.5  # of the features before the projection to the vocabulary


class Embedding(nn.Module):
    """E[y] (..., size) of token ids y (...), with dropout of single elements and of whole words.

    Word dropout follows Gal & Ghahramani 2016, sec. 4.2, but with a mask of its own for every token instead of every
    word type. Dropped words become zero; the others are not rescaled.
    """

    def __init__(self, vocabulary_size: int, size: int, *, dropout: float = 0.0, word_dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.table = table_of(vocabulary_size, size)
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = word_dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., size) of token ids (...) int64."""
        embedded: Tensor = self.dropout(self.look_up(tokens))
        if self.training and self.word_dropout > 0:
            kept = torch.rand(embedded.shape[:-1], device=tokens.device) >= self.word_dropout
            embedded = embedded * kept.unsqueeze(-1)
        return embedded

    def look_up(self, tokens: Tensor) -> Tensor:
        """The embeddings without dropout."""
        embedded: Tensor = self.table(tokens)
        return embedded


def table_of(vocabulary_size: int, size: int) -> nn.Embedding:
    """A table of embeddings, initialized at random; the row of padding is 0."""
    table = nn.Embedding(vocabulary_size, size, padding_idx=PADDING)
    nn.init.normal_(table.weight, std=size**-0.5)
    nn.init.zeros_(table.weight.data[PADDING])
    return table
