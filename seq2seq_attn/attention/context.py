"""The base of all contexts: what a decoder sees of the source at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights


class Context(nn.Module, ABC):
    """The exchangeable part between encoder and decoder: the arms of an ablation differ in it alone.

        source = context.prepare(keys, values=None, is_token=mask)
        contexts, weights = context(query, source)

    The source is an immutable record with `select(rows)`. T queries in one call are T steps, one after another from the
    first on; where nothing is remembered between steps, they may be any queries on the same source. A caller that takes
    the steps one by one carries the history from each to the next:

        history = context.start(source)
        contexts, weights, history = context(query, source, history)

    Where steps depend on earlier weights, `torch.export` and `torch.jit.trace` keep the T of the example, and the
    program refuses another one; export a call with a history to take any number of steps.
    """

    value_size: int  # width of what the decoder sees
    reads_query: ClassVar[bool]  # False: the query changes nothing, so all steps can be read at once
    needs_history: bool = False  # True: a step depends on those before it

    @abstractmethod
    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """All that does not depend on the query, once per sentence.

        Values default to the keys. `is_token` is True on tokens, None where all positions are tokens: the opposite of a
        `key_padding_mask`, for which give its negation. Keys and values on padding must be finite, and change nothing.

        ValueError: shapes or the mask's dtype do not fit, or a sentence has no token. The latter is not seen where the
        mask is on an accelerator, while a graph is traced, and within the transforms of `torch.func`; there such a
        sentence gets NaN from softmax and its variants and 0 from the other normalisers; others are not affected.
        """

    @abstractmethod
    def forward(self, query: Query, source: Any, history: History | None = None) -> Any:
        """Contexts (B, T, value_size) and the weights (B, T, S) under which they were read.

        With a history, `query` (B, K, query_size) is one step of K hypotheses per sentence, each with its own entry
        (B, K, ...) in the history, and the history for the next step is the third result.
        """

    def reader(self) -> Context:
        """The part that sums values under its weights: this one, or the attention that it wraps."""
        return self

    def start(self, source: Any) -> History:
        """The history before the first step, of one hypothesis per sentence: tensors (B, 1, ...)."""
        return NOTHING


def one_by_one(
    step: Callable[[Query, Any, History], tuple[Contexts, Weights, History]],
    query: Query,
    source: Any,
    history: History,
) -> tuple[Contexts, Weights]:
    """Contexts and weights of T queries, taken as T steps from the one after `history` on."""
    seen = []
    for one in torch.split(query, 1, dim=1):
        contexts, weights, history = step(one, source, history)
        seen.append((contexts, weights))
    contexts, weights = (torch.cat(part, dim=1) for part in zip(*seen, strict=True))
    return contexts, weights
