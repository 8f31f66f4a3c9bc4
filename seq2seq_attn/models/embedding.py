"""Token embeddings with dropout of single elements and of whole words."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.seq2seq import DropoutConfig, ModelConfig, Tied

PADDING = 1  # id of `<pad>` (corpora/vocabulary.py)


class Embedding(nn.Module):
    """E[y] (..., size) of token ids y (...), with dropout of single elements and of whole words.

    Word dropout follows Gal & Ghahramani 2016, sec. 4.2, but with a mask of its own for every token instead of every
    word type. Dropped words become zero; the others are not rescaled.
    """

    def __init__(self, vocabulary_size: int, size: int, *, dropout: float = 0.0, word_dropout: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary_size, size, padding_idx=PADDING)
        nn.init.normal_(self.table.weight, std=size**-0.5)
        nn.init.zeros_(self.table.weight.data[PADDING])
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = word_dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., size) of token ids (...) int64."""
        embedded: Tensor = self.dropout(self.table(tokens))
        if self.training and self.word_dropout > 0:
            kept = torch.rand(tokens.shape, device=tokens.device) >= self.word_dropout
            embedded = embedded * kept.unsqueeze(-1)
        return embedded


def build_embeddings(
    config: ModelConfig, dropout: DropoutConfig, tied: Tied, source_size: int, target_size: int, joint: bool
) -> tuple[Embedding, Embedding]:
    """The embeddings of source and target, the same one twice if `tied` is `all`.

    UserError if they are to be shared by two vocabularies.
    """
    if tied == "all" and not joint:
        raise UserError("model.tie_embeddings=all needs one vocabulary for both languages; set text.joint=true")
    embedding = partial(Embedding, dropout=dropout.embedding, word_dropout=dropout.word)
    source = embedding(source_size, config.embedding_size)
    return source, source if tied == "all" else embedding(target_size, config.embedding_size)
