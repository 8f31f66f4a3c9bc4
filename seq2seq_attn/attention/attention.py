"""Attention: score, normalize, sum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from seq2seq_attn.attention.checks import check_extension, check_query, check_scores, check_source, need_instance, unfit
from seq2seq_attn.attention.context import Context, one_by_one
from seq2seq_attn.attention.normalizer import Normalizer, full_precision
from seq2seq_attn.attention.normalizers.softmax import Softmax
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import NOTHING, AttentionSource, History, restricted
from seq2seq_attn.attention.window import View, Window


class Attention(Context):
    """C_i = Σ_j a_ij v_j with a_i = softmax_j F(q_i, k_j) (Bahdanau et al. 2015, eq. 5 and 6).

    As in `nn.MultiheadAttention`, the returned weights are those after dropout. The history holds the weights before.

    Args:
        scorer: F; its sizes are those of queries and keys.
        normalizer: What replaces softmax.
        window: Restricts which positions are read.
        value_size: The width of the values, if it differs from that of the keys.
        dropout: The probability of setting a weight to 0 in training mode, where the others are divided by
            1 - dropout; it uses torch's generator.

    Raises:
        TypeError: A part is a class or a name, not an instance.
        ValueError: The dropout is not in [0, 1).
    """

    reads_query = True

    def __init__(
        self,
        scorer: Scorer,
        normalizer: Normalizer | None = None,
        window: Window | None = None,
        value_size: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        need_instance(self, Scorer, scorer=scorer)
        if normalizer is not None:
            need_instance(self, Normalizer, normalizer=normalizer)
        if window is not None:
            need_instance(self, Window, window=window)
        if not 0 <= dropout < 1:
            raise unfit(self, "0 <= dropout < 1", dropout)
        self.scorer = scorer
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.window = window
        self.query_size, self.key_size = scorer.query_size, scorer.key_size
        self.value_size = scorer.key_size if value_size is None else value_size
        self.dropout = dropout
        counts_steps = window is not None and window.needs_steps
        self.needs_history = scorer.needs_history or self.normalizer.needs_history or counts_steps

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> AttentionSource:
        check_source(self, keys, values, is_token, self.key_size)
        return AttentionSource(
            prepared=self.scorer.prepare(keys),
            values=keys if values is None else values,
            is_token=None if is_token is None else is_token[:, None],
        )

    def extend(
        self, source: AttentionSource, keys: Keys, values: Values | None = None, is_token: IsToken | None = None
    ) -> AttentionSource:
        check_extension(self, source.sentences, keys, is_token, self.scorer, self.normalizer)
        more = self.prepare(keys, values)
        return source.append(more if is_token is None else more._replace(is_token=is_token[:, None]))

    def start(self, source: AttentionSource) -> History:
        scores = source.values.new_empty((source.sentences, 1, source.values.shape[1]))
        steps = NOTHING if self.window is None else scores.new_zeros(scores.shape[:2], dtype=torch.int64)
        return self.scorer.start(source.prepared), self.normalizer.start(scores), steps

    def condition(self, history: History, log_likelihood: Weights) -> History:
        scorer_history, normalizer_history, steps = history
        return scorer_history, self.normalizer.condition(normalizer_history, log_likelihood), steps

    def forward(
        self,
        query: Query,
        source: AttentionSource,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        check_query(self, query, source, self.query_size)
        source = restricted(self, query, source, history, may_read, causal, bias)
        if history is not None:
            contexts, weights, history = self._step(query, source, history)
            return contexts, weights if need_weights else None, history
        history = self.start(source)
        ahead = self._ahead(history, query.shape[1])
        if ahead is None:
            contexts, weights = one_by_one(self._step, query, source, history)
        else:
            contexts, weights, _ = self._step(query, source, ahead)
        return contexts, weights if need_weights else None

    def _step(self, query: Query, source: AttentionSource, history: History) -> tuple[Contexts, Weights, History]:
        weights, history = self.weigh(query, source, history, self.view(query, source, history))
        contexts, weights = self.read(weights, source.values)
        return contexts, weights, history

    def weigh(self, query: Query, source: AttentionSource, history: History, view: View) -> tuple[Weights, History]:
        """Computes the weights of a step: a_i = softmax_j F(q_i, k_j), where the window leaves anything.

        Args:
            query: A query of each of K hypotheses (B, K, query_size).
            source: What `prepare` returned.
            history: That before the step.
            view: What the window leaves of the source.

        Returns:
            The weights (B, K, S), and the history for the next step.
        """
        scorer_history, normalizer_history, steps = history
        scores = self.scorer.after(scorer_history, query, source.prepared)
        check_scores(self.scorer, scores, query, source.values.shape[1])
        if source.bias is None:
            weights = self.normalizer.after(normalizer_history, scores, view.is_open)
        else:
            biased = full_precision(scores) + source.bias
            weights = self.normalizer.after(normalizer_history, biased, view.is_open).to(scores.dtype)
        normalizer_history = self.normalizer.advance(normalizer_history, weights)
        if view.factor is not None:
            weights = weights * view.factor.to(weights.dtype)
        scorer_history = self.scorer.advance(scorer_history, query, source.prepared, weights)
        steps = NOTHING if self.window is None else steps + 1
        return weights, (scorer_history, normalizer_history, steps)

    def read(self, weights: Weights, values: Values) -> tuple[Contexts, Weights]:
        """Sums the values under the weights, C_i = Σ_j a_ij v_j (Bahdanau et al. 2015, eq. 5).

        Args:
            weights: a_ij (B, T, S); 0 on padding.
            values: v_j (B, S, value_size).

        Returns:
            The contexts (B, T, value_size), and the weights that were used: those after dropout.
        """
        if self.dropout and self.training:
            weights = F.dropout(weights, self.dropout)
        return torch.bmm(weights, values), weights

    def view(self, query: Query, source: AttentionSource, history: History) -> View:
        """Returns what the window leaves of the source at a step; arguments as those of `weigh`."""
        if self.window is None:
            return View(source.is_token, factor=None)
        *_, steps = history
        return self.window(query, source.token_mask(), steps)

    def _ahead(self, history: History, steps: int) -> History | None:
        """The histories before each of the next steps; None if they depend on weights not yet computed."""
        scorer_history, normalizer_history, taken = history
        scorer_history = self.scorer.ahead(scorer_history, steps)
        if scorer_history is None or self.normalizer.needs_history:
            return None
        if self.window is not None:
            taken = taken + torch.arange(steps, device=taken.device)
        return scorer_history, normalizer_history, taken
