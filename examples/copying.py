"""A head that copies, in one file: words of the source can be produced although training never asked for them.

model: {head: {kind: copying.py:CopyingConfig}}
text: {joint: true}
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.head import Head, HeadConfig, Read


class SourceTokens(NamedTuple):
    """What may be copied."""

    tokens: Tensor  # (M, S)

    def select(self, rows: Tensor) -> SourceTokens:
        return SourceTokens(self.tokens.index_select(0, rows))


class CopyingHead(Head):
    """p(y) = g softmax(W t + b)_y + (1 - g) Σ_j a_j [x_j = y], g = σ(w · t + c), with features t and weights a.

    (See et al. 2017, eq. 8 and 9, for one vocabulary of source and target.)
    """

    needs_weights = True

    def __init__(self, projection: nn.Linear) -> None:
        super().__init__()
        self.projection = projection
        self.gate = nn.Linear(projection.in_features, 1)

    def prepare(self, source: Tokens) -> SourceTokens:
        return SourceTokens(source.tokens)

    def forward(self, read: Read, memory: SourceTokens) -> Tensor:
        assert read.weights is not None
        generated = torch.log_softmax(self.projection(read.features), dim=-1)
        copied = torch.zeros_like(generated).scatter_add(1, memory.tokens, read.weights.to(generated.dtype))
        gate = self.gate(read.features)
        smallest = torch.finfo(copied.dtype).tiny  # log 0 has no gradient
        log_p: Tensor = torch.logaddexp(
            nn.functional.logsigmoid(gate) + generated,
            nn.functional.logsigmoid(-gate) + copied.clamp_min(smallest).log(),
        )
        return log_p


class CopyingConfig(HeadConfig):
    kind: Literal["copying"] = "copying"

    def build(self, projection: nn.Linear) -> CopyingHead:
        return CopyingHead(projection)
