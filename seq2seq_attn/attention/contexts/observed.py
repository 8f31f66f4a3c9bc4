"""Observed: a context whose weights are also given to an observer, before other modules average or discard them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seq2seq_attn.attention.checks import need_instance
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.shapes import IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import History


class Observed(Context):
    """The same contexts and weights as `context`, and an observer that sees the weights of every call.

    Contexts are always computed from the weights, also if the caller does not need them. Put in the place of
    `MultiHead.reader()`, the module that sums the values of all heads, it sees B * heads sentences.

    Args:
        context: The context.
        observe: Called with the weights (B, T, S) of every call.
    """

    reads_query = True  # so that a decoder asks at every step

    def __init__(self, context: Context, observe: Callable[[Weights], object]) -> None:
        super().__init__()
        need_instance(self, Context, context=context)
        self.context = context
        self.observe = observe
        self.value_size = context.value_size
        self.needs_history = context.needs_history

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        return self.context.prepare(keys, values, is_token)

    def start(self, source: Any) -> History:
        return self.context.start(source)

    def condition(self, history: History, log_likelihood: Weights) -> History:
        return self.context.condition(history, log_likelihood)

    def forward(
        self, query: Query, source: Any, history: History | None = None, *, need_weights: bool = True, **options: Any
    ) -> Any:
        contexts, weights, *later = self.context(query, source, history, **options)
        self.observe(weights)
        return contexts, weights if need_weights else None, *later
