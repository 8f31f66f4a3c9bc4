"""A head of your own, in one file: a mixture of softmaxes, for distributions that one softmax cannot have.

model: {head: {kind: mixture_of_softmaxes.py:MixtureConfig, parts: 3}}
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from seq2seq_attn.models.head import Head, HeadConfig, Read


class MixtureHead(Head):
    """p(y) = Σ_k π_k softmax(W t_k + b)_y, with π = softmax(U t + c) and t_k = tanh(V_k t + d_k), for K parts.

    (Yang et al. 2018, sec. 2.3.)
    """

    def __init__(self, projection: nn.Linear, parts: int) -> None:
        super().__init__()
        self.projection = projection
        self.prior = nn.Linear(projection.in_features, parts)
        self.features = nn.Linear(projection.in_features, parts * projection.in_features)

    def forward(self, read: Read, memory: Any) -> Tensor:
        features = torch.tanh(self.features(read.features)).unflatten(-1, (self.prior.out_features, -1))  # (M, K, R)
        prior = self.prior(read.features).log_softmax(-1)
        log_p: Tensor = (prior[..., None] + self.projection(features).log_softmax(-1)).logsumexp(1)
        return log_p


class MixtureConfig(HeadConfig):
    kind: Literal["mixture_of_softmaxes"] = "mixture_of_softmaxes"
    parts: int = 3

    def build(self, projection: nn.Linear, inputs_size: int) -> MixtureHead:
        return MixtureHead(projection, self.parts)
