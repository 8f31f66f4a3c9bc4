"""Token embeddings with dropout of single elements and of whole words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.ops.dispatch import fusible
from seq2seq_attn.ops.dropout import Dropout

PADDING = 1  # id of `<pad>` (text/vocabulary.py)


@fusible
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
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (..., size) of token ids (...) int64."""
        embedded: Tensor = self.dropout(self.table(tokens))
        if self.training and self.word_dropout > 0:
            kept = torch.rand(tokens.shape, device=tokens.device) >= self.word_dropout
            embedded = embedded * kept.unsqueeze(-1)
        return embedded
