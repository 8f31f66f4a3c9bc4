"""Attention: score, normalise, sum."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.normaliser import Normaliser, Softmax
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import Source, refuse_empty


class Attention(Context):
    """C_i = Σ_j a_ij v_j with a_i = softmax_j F(q_i, k_j) (Bahdanau et al. 2015, eq. 5 and 6).

    F is the scorer; another normaliser may stand for softmax. `value_size` is the width of the values, to be
    given where they are not as wide as the keys.
    """

    reads_query = True

    def __init__(self, scorer: Scorer, normaliser: Normaliser | None = None, value_size: int | None = None) -> None:
        super().__init__()
        if scorer.needs_history:
            raise ValueError(
                f"{type(scorer).__name__} needs the weights of earlier steps, which Attention does not keep"
            )
        self.scorer = scorer
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.value_size = scorer.key_size if value_size is None else value_size

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Source:
        refuse_empty(keys, is_token)
        return Source(
            prepared=self.scorer.prepare(keys),
            values=keys if values is None else values,
            is_token=None if is_token is None else is_token[:, None],
        )

    def forward(self, query: Query, source: Source) -> tuple[Contexts, Weights]:
        weights = self.normaliser(self.scorer(query, source.prepared), source.is_token)
        return torch.bmm(weights, source.values), weights
