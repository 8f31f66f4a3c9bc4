"""Attention: score, normalise, sum."""

from __future__ import annotations

from typing import Any

import torch

from seq2seq_attn.attention.context import Context, one_by_one
from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.normaliser import Normaliser
from seq2seq_attn.attention.normalisers.softmax import Softmax
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import Source, check_query, check_source
from seq2seq_attn.attention.window import View, Window


class Attention(Context):
    """C_i = Σ_j a_ij v_j with a_i = softmax_j F(q_i, k_j) (Bahdanau et al. 2015, eq. 5 and 6).

    F is the scorer. Another normaliser may replace softmax, and a window may restrict which positions are read.
    `value_size` is the width of the values; it is needed only if they are not as wide as the keys.
    """

    reads_query = True

    def __init__(
        self,
        scorer: Scorer,
        normaliser: Normaliser | None = None,
        window: Window | None = None,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        self.scorer = scorer
        self.normaliser = Softmax() if normaliser is None else normaliser
        self.window = window
        self.query_size, self.key_size = scorer.query_size, scorer.key_size
        self.value_size = scorer.key_size if value_size is None else value_size
        counts_steps = window is not None and window.needs_steps
        self.needs_history = scorer.needs_history or self.normaliser.needs_history or counts_steps

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Source:
        check_source(self, keys, values, is_token, self.key_size)
        return Source(
            prepared=self.scorer.prepare(keys),
            values=keys if values is None else values,
            is_token=None if is_token is None else is_token[:, None],
        )

    def start(self, source: Source) -> History:
        scores = source.values.new_empty((source.sentences, 1, source.values.shape[1]))
        steps = NOTHING if self.window is None else scores.new_zeros(scores.shape[:2], dtype=torch.int64)
        return self.scorer.start(source.prepared), self.normaliser.start(scores), steps

    def forward(self, query: Query, source: Source, history: History | None = None) -> Any:
        if history is not None:
            return self._step(query, source, history)
        history = self.start(source)
        ahead = self._ahead(history, query.shape[1])
        if ahead is None:
            return one_by_one(self._step, query, source, history)
        contexts, weights, _ = self._step(query, source, ahead)
        return contexts, weights

    def _step(self, query: Query, source: Source, history: History) -> tuple[Contexts, Weights, History]:
        weights, history = self.weigh(query, source, history)
        return torch.bmm(weights, source.values), weights, history

    def weigh(self, query: Query, source: Source, history: History) -> tuple[Weights, History]:
        """The weights (B, K, S) of a step, and the history for the next one."""
        check_query(self, query, source.sentences, self.query_size)
        of_scorer, of_normaliser, steps = history
        scores = self.scorer.after(of_scorer, query, source.prepared)
        view = self._view(query, source, steps)
        weights = self.normaliser.after(of_normaliser, scores, view.is_open)
        of_normaliser = self.normaliser.advance(of_normaliser, weights)
        if view.factor is not None:
            weights = weights * view.factor.to(weights.dtype)
        of_scorer = self.scorer.advance(of_scorer, query, source.prepared, weights)
        steps = NOTHING if self.window is None else steps + 1
        return weights, (of_scorer, of_normaliser, steps)

    def _view(self, query: Query, source: Source, steps: History) -> View:
        if self.window is None:
            return View(source.is_token, factor=None)
        everywhere = source.values.new_ones((source.sentences, 1, source.values.shape[1]), dtype=torch.bool)
        view: View = self.window(query, everywhere if source.is_token is None else source.is_token, steps)
        return view

    def _ahead(self, history: History, steps: int) -> History | None:
        """The histories of the next steps, one entry each; None if they depend on weights not yet computed."""
        of_scorer, of_normaliser, taken = history
        of_scorer = self.scorer.ahead(of_scorer, steps)
        if of_scorer is None or self.normaliser.needs_history:
            return None
        if self.window is not None:
            taken = taken + torch.arange(steps, device=taken.device)
        return of_scorer, of_normaliser, taken
