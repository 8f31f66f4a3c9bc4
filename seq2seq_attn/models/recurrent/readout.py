"""From H_i, C_i and y_{i-1} to the features that the vocabulary projection reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_attn.ops.dispatch import known
from seq2seq_attn.ops.dropout import Dropout
from seq2seq_attn.ops.linear import Linear


@known
class DeepOutput(nn.Module):
    """t_i = tanh(W [H_i; C_i; E y_{i-1}])   (Pascanu et al. 2014; Bahdanau et al. 2015, A.2.2, with tanh for maxout).

    Bahdanau's t_i reads the state before the update; here it is H_i, the state that has read C_i (their eq. 4).
    """

    def __init__(
        self, hidden_size: int, context_size: int, embedding_size: int, size: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.combine = Linear(hidden_size + context_size + embedding_size, size)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        features: Tensor = self.dropout(torch.tanh(self.combine(torch.cat((hidden, context, embedded), dim=-1))))
        return features


@known
class PlainOutput(nn.Module):
    """t_i = H_i: the decoder's own state is projected, as in Luong et al. 2015, eq. 6."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        features: Tensor = self.dropout(hidden)
        return features
