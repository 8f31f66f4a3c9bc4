"""The base class of all contexts: what a decoder reads from the source at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import NOTHING, History


class Context(nn.Module, ABC):
    """The exchangeable module between encoder and decoder: the arms of an ablation differ only in their context.

        source = context.prepare(keys, values=None, is_token=mask)
        contexts, weights = context(query, source)

    The source is an immutable record with `select(rows)`. The T queries of one call are T consecutive steps, starting
    with the first; if a context needs no history, they may be any queries on the same source. A caller that takes the
    steps one by one passes the history of each step to the next:

        history = context.start(source)
        contexts, weights, history = context(query, source, history)

    If steps depend on earlier weights, `torch.export` and `torch.jit.trace` specialize on the T of the example inputs,
    and the program rejects any other T; export a call with a history to take any number of steps.
    """

    value_size: int  # width of the context vectors
    reads_source: ClassVar[bool] = True  # False: it sees a summary of the source at most, and all weights are 0
    reads_query: ClassVar[bool]  # False: the query has no effect, so all steps can be computed at once
    needs_history: bool = False  # True: a step depends on earlier steps
    heads: int = 1  # rows that each sentence has in the calls of `reader`

    @abstractmethod
    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """Computes everything that does not depend on the query, once per sentence.

        Args:
            keys: What queries are compared with (B, S, key_size). Keys and values on padding must be finite and have
                no effect.
            values: What is summed (B, S, value_size); by default the keys.
            is_token: True on tokens (B, S), the negation of a `key_padding_mask`; None: all positions are tokens.

        Returns:
            The source, an immutable record with `sentences` and `select(rows)`.

        Raises:
            ValueError: Shapes or the dtype of the mask do not fit, or a sentence has no token. The latter is not
                detected if the mask is on an accelerator, while a graph is traced, or within `torch.func` transforms.
                Such a sentence then gets NaN from softmax and its variants and 0 from the other normalizers; other
                sentences are not affected.
        """

    def extend(self, source: Any, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """Appends positions to a source, as in a growing key-value cache.

        Args:
            source: The source, which is not changed.
            keys: The keys of the new positions; also values and is_token, as in `prepare`.
            values: Their values.
            is_token: Their mask.

        Returns:
            The record that `prepare` returns for all positions at once.

        Raises:
            ValueError: Shapes do not fit, or a part depends on all positions or carries an entry per position from step
                to step, as coverage does.
        """
        raise ValueError(f"{type(self).__name__} cannot append to a source; prepare the longer source at once")

    @abstractmethod
    def forward(
        self,
        query: Query,
        source: Any,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        """Reads the source with T queries, or takes one step of K hypotheses per sentence.

        Args:
            query: T queries (B, T, query_size); with a history, one of each of K hypotheses.
            source: What `prepare` returned.
            history: Tensors (B, K, ...), an entry of its own for each hypothesis; None: the T queries are the steps
                from the first one on.
            may_read: True where a query may read a position; any shape that broadcasts to (B, T, S). A position is read
                only if both `is_token` and `may_read` are True; all others are treated as padding.
            causal: The queries are the last T of the S positions, and each reads the positions up to its own. This
                covers self-attention (T = S), and T new queries on a source that has been extended by their T keys.
            bias: Added to the scores; any shape that broadcasts to (B, T, S). -inf excludes a position.
            need_weights: False returns None in place of the weights: `ops.fuse` may then replace the sum by one that
                does not materialize them.

        Returns:
            The contexts (B, T, value_size) and the weights (B, T, S) with which the values were summed; with a history
            also that for the next step.

        Raises:
            ValueError: Shapes do not fit, causal queries have a history, or a query may read no position. The latter is
                detected under the conditions given in `prepare`; otherwise the weights are NaN or 0.
        """

    def reader(self) -> Context:
        """Returns the module that computes the weighted sum of the values: this one, or the attention in it."""
        return self

    def start(self, source: Any) -> History:
        """Returns the history before the first step, for one hypothesis per sentence: tensors (B, 1, ...)."""
        return NOTHING

    def condition(self, history: History, log_likelihood: Weights) -> History:
        """Returns the history, where its step is known to have read one position, and what came of it.

        Changes the part of the history that is a distribution over positions, which `MonotonicSoftmax` has, by Bayes'
        rule; any other stays as it is.

        Args:
            history: That after the step.
            log_likelihood: log p(result | position j was read), for each hypothesis (B, K, S).
        """
        return history


def attend(
    context: Context,
    query: Query,
    keys: Keys,
    values: Values | None = None,
    is_token: IsToken | None = None,
    **options: Any,
) -> tuple[Contexts, Weights | None]:
    """Reads a source with queries: `prepare` and the call in one.

        contexts, weights = attend(attention, query, keys, is_token=mask)

    To read a source several times, prepare it once instead.

    Args:
        context: Any context.
        query: The queries (B, T, query_size).
        keys: What they are compared with (B, S, key_size).
        values: What is summed (B, S, value_size); by default the keys.
        is_token: True on tokens (B, S); None: all positions are tokens.
        **options: `may_read`, `causal`, `bias` and `need_weights` of the call.

    Returns:
        The contexts (B, T, value_size), and the weights (B, T, S) or None.

    Raises:
        ValueError: As `Context.prepare` and the call.
    """
    result: tuple[Contexts, Weights | None] = context(query, context.prepare(keys, values, is_token), **options)
    return result


def one_by_one(
    step: Callable[[Query, Any, History], tuple[Contexts, Weights, History]],
    query: Query,
    source: Any,
    history: History,
) -> tuple[Contexts, Weights]:
    """Contexts and weights of T queries, computed as T consecutive steps after `history`."""
    results = []
    for t, one in enumerate(torch.split(query, 1, dim=1)):
        contexts, weights, history = step(one, source.for_query(t), history)
        results.append((contexts, weights))
    contexts, weights = (torch.cat(part, dim=1) for part in zip(*results, strict=True))
    return contexts, weights
