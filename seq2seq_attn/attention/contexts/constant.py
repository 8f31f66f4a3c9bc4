"""Contexts that do not depend on the query: the other arms of the ablation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from seq2seq_attn.attention.checks import check_query, check_source, need_instance, need_positive, refuse
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.normalizers.softmax import uniform_weights
from seq2seq_attn.attention.shapes import Bias, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import ConstantSource, History
from seq2seq_attn.attention.summary import Summary


class ConstantContext(Context):
    """The same context at every step, computed in `prepare` and expanded without a copy."""

    reads_query = False

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> ConstantSource:
        check_source(self, keys, values, is_token)
        if is_token is None:
            is_token = keys.new_ones(keys.shape[:2], dtype=torch.bool)
        return self.read(keys if values is None else values, is_token)

    def forward(
        self,
        query: Query,
        source: ConstantSource,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        check_query(self, query, source)
        refuse(self, "every query gets the same context", may_read=may_read, causal=causal, bias=bias)
        steps = query.shape[1]
        weights = source.weights.expand(-1, steps, -1) if need_weights else None
        contexts = source.context.expand(-1, steps, -1)
        return (contexts, weights) if history is None else (contexts, weights, history)

    @abstractmethod
    def read(self, values: Values, is_token: IsToken) -> ConstantSource:
        """Computes what every query gets.

        Args:
            values: What is summed (B, S, value_size).
            is_token: True on tokens (B, S).

        Returns:
            The context (B, 1, value_size) and the weights (B, 1, S).
        """


class FixedContext(ConstantContext):
    """C_i = C, a summary of the states, at every step: the "distracted" model (Cho et al. 2014, sec. 2.2).

    No step reads the states, so all weights are 0.

    Args:
        summary: C of the states.
        value_size: The width of C.
    """

    reads_source = False

    def __init__(self, summary: Summary, value_size: int) -> None:
        super().__init__()
        need_instance(self, Summary, summary=summary)
        need_positive(self, value_size=value_size)
        self.summary = summary
        self.value_size = value_size

    def read(self, values: Values, is_token: IsToken) -> ConstantSource:
        return ConstantSource(self.summary(values, is_token)[:, None], _zero_weights(values))


class NoContext(ConstantContext):
    """No context: the decoder depends on the source through its first state only (Sutskever et al. 2014).

    The context has width 0, and all weights are 0.
    """

    value_size = 0
    reads_source = False

    def read(self, values: Values, is_token: IsToken) -> ConstantSource:
        return ConstantSource(values.new_empty((values.shape[0], 1, 0)), _zero_weights(values))


class MeanContext(ConstantContext):
    """C_i = the mean of the values over the tokens: attention with uniform weights.

    Args:
        value_size: The width of the values.
    """

    def __init__(self, value_size: int) -> None:
        super().__init__()
        need_positive(self, value_size=value_size)
        self.value_size = value_size

    def read(self, values: Values, is_token: IsToken) -> ConstantSource:
        weights = uniform_weights(values, is_token)
        return ConstantSource(torch.bmm(weights, values), weights)


def _zero_weights(values: Values) -> Weights:
    return values.new_zeros((values.shape[0], 1, values.shape[1]))
