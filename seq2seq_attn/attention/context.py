"""The base of all contexts: what a decoder sees of the source at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import check_query


class Context(nn.Module, ABC):
    """The exchangeable part between encoder and decoder: the arms of an ablation differ in it alone.

        source = context.prepare(keys, values=None, is_token=mask)
        seen, weights = context(query, source)

    The source is an immutable record with `select(rows)`. T queries at once are T steps one after another from the
    first on; where nothing is remembered between steps, they may as well be anything that reads the same source.
    Who takes the steps one by one carries the history from each to the next:

        history = context.start(source)
        seen, weights, history = context.step(query, source, history)
    """

    value_size: int  # width of what the decoder sees
    reads_query: ClassVar[bool]  # False: the query changes nothing, so all steps can be read at once
    needs_history: bool = False  # True: a step depends on those before it

    @abstractmethod
    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """All that does not depend on the query, once a sentence.

        Values default to the keys. `is_token` is True where a token is, None where all are; what stands on
        padding must be finite, and changes nothing. ValueError if a sentence has no token at all (not checked
        where `is_token` lies on an accelerator).
        """

    @abstractmethod
    def forward(self, query: Query, source: Any) -> tuple[Contexts, Weights]:
        """Contexts (B, T, value_size) and the weights (B, T, S) under which they were read."""

    def additive_form(self) -> tuple[Tensor, Tensor] | None:
        """W and v where all there is to reading is softmax_j v · tanh(W q + k'_j), as in `Scorer.additive_form`."""
        return None

    def reader(self) -> Context:
        """The part that sums values under its weights: this one, or the attention that it stands around."""
        return self

    def start(self, source: Any) -> History:
        """The history before the first step, of one hypothesis a sentence: tensors (B, 1, ...)."""
        return NOTHING

    def step(self, query: Query, source: Any, history: History) -> tuple[Contexts, Weights, History]:
        """One step of K hypotheses a sentence, each with its own entry (B, K, ...) in the history.

        Contexts (B, K, value_size), weights (B, K, S), and the history for the next step.
        """
        contexts, weights = self(query, source)
        return contexts, weights, history


def one_by_one(context: Context, query: Query, source: Any) -> tuple[Contexts, Weights]:
    """What T queries see, from the first step on, each step after the one before it."""
    check_query(context, query)
    history = context.start(source)
    readings = []
    for one in torch.split(query, 1, dim=1):
        contexts, weights, history = context.step(one, source, history)
        readings.append((contexts, weights))
    contexts, weights = (torch.cat(part, dim=1) for part in zip(*readings, strict=True))
    return contexts, weights
