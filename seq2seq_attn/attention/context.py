"""The base class of all contexts: what a decoder reads from the source at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights


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
        """Everything that does not depend on the query, computed once per sentence.

        Values default to the keys. `is_token` is True on tokens, the negation of a `key_padding_mask`; None means that
        all positions are tokens. Keys and values on padding must be finite and have no effect.

        ValueError: shapes or the dtype of the mask do not fit, or a sentence has no token. The latter is not detected
        if the mask is on an accelerator, while a graph is traced, or within `torch.func` transforms. Such a sentence
        then gets NaN from softmax and its variants and 0 from the other normalizers; other sentences are not affected.
        """

    def extend(self, source: Any, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """A new record with more positions appended to those of the source, as in a growing key-value cache.

        It equals the record that `prepare` returns for all keys at once. ValueError: shapes do not fit, or a part
        depends on all positions or carries an entry per position from step to step, as coverage does.
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
        """Contexts (B, T, value_size) and the weights (B, T, S) with which the values were summed.

        may_read: True where a query may read a position; any shape that broadcasts to (B, T, S). A position is read
            only if both `is_token` and `may_read` are True; all others are treated as padding.
        causal: the queries are the last T of the S positions, and each reads the positions up to its own. This covers
            self-attention (T = S), and T new queries on a source that has been extended by their T keys.
        bias: added to the scores; any shape that broadcasts to (B, T, S). -inf excludes a position, as `may_read` does.
        need_weights: False returns None in place of the weights: `ops.fuse` may then replace the sum by one that does
            not materialize them.

        With a history, `query` (B, K, query_size) is one step of K hypotheses per sentence, each with its own entry
        (B, K, ...) in the history, and the third result is the history for the next step. `may_read` and `bias` then
        apply to the hypotheses; `causal` has no meaning and is rejected.

        ValueError: shapes do not fit, or a query may read no position. The latter is detected under the conditions
        given in `prepare`; otherwise the weights are NaN or 0.
        """

    def reader(self) -> Context:
        """The module that computes the weighted sum of the values: this one, or the attention that it wraps."""
        return self

    def start(self, source: Any) -> History:
        """The history before the first step, for one hypothesis per sentence: tensors (B, 1, ...)."""
        return NOTHING


def attend(
    context: Context,
    query: Query,
    keys: Keys,
    values: Values | None = None,
    is_token: IsToken | None = None,
    *,
    may_read: MayRead | None = None,
    causal: bool = False,
    bias: Bias | None = None,
    need_weights: bool = True,
) -> tuple[Contexts, Weights | None]:
    """Contexts (B, T, value_size) and weights (B, T, S) of queries on a source, with `prepare` and the call in one.

        contexts, weights = attend(attention, query, keys, is_token=mask)

    The arguments are those of `Context.prepare` and of the context's call. To read a source several times, prepare it
    once instead.
    """
    result: tuple[Contexts, Weights | None] = context(
        query, context.prepare(keys, values, is_token), **given(may_read, causal, bias, need_weights)
    )
    return result


def given(may_read: MayRead | None, causal: bool, bias: Bias | None, need_weights: bool) -> dict[str, Any]:
    """The options that differ from their defaults, for contexts that may not accept all of them."""
    options = {"may_read": may_read, "causal": causal, "bias": bias, "need_weights": need_weights}
    defaults = {"may_read": None, "causal": False, "bias": None, "need_weights": True}
    return {name: option for name, option in options.items() if option is not defaults[name]}


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
