"""The base of all contexts: what a decoder sees of the source at each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights


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

    def extend(self, source: Any, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        """The source with more positions behind those it has, as a new record: a cache of keys and values that grows.

        It equals the one that `prepare` makes of all keys at once. ValueError: shapes do not fit, or a part depends on
        all positions, or keeps an entry for each of them from step to step, as coverage does.
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
        """Contexts (B, T, value_size) and the weights (B, T, S) under which they were read.

        may_read: True where a query may read a position; whatever broadcasts to (B, T, S). For this query all else is
            as padding is: of `is_token` and `may_read` both must be True.
        causal: the queries are the last T of the S positions, and each reads those up to its own. So it serves
            self-attention (T = S), and T new queries on a source that has grown by their T keys.
        bias: added to the scores, whatever broadcasts to (B, T, S); -inf excludes a position as `may_read` does.
        need_weights: False gives None in place of the weights; softmax of `ScaledDot` is then computed by torch's
            `scaled_dot_product_attention`, which never builds them, and has first derivatives alone.

        With a history, `query` (B, K, query_size) is one step of K hypotheses per sentence, each with its own entry
        (B, K, ...) in the history, and the history for the next step is the third result. `may_read` and `bias` are
        then those of the hypotheses; `causal` has no meaning there and is refused.

        ValueError: shapes do not fit, or nothing is left to a query (seen, and NaN or 0 where it is not, as in
        `prepare`; NaN or 0 from `scaled_dot_product_attention`, by device and release).
        """

    def reader(self) -> Context:
        """The part that sums values under its weights: this one, or the attention that it wraps."""
        return self

    def start(self, source: Any) -> History:
        """The history before the first step, of one hypothesis per sentence: tensors (B, 1, ...)."""
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
    """Contexts (B, T, value_size) and weights (B, T, S) of queries on a source, prepared and read in one call.

        contexts, weights = attend(attention, query, keys, is_token=mask)

    Arguments are those of `Context.prepare` and of the context's call. To read one source several times, prepare it.
    """
    seen: tuple[Contexts, Weights | None] = context(
        query, context.prepare(keys, values, is_token), **given(may_read, causal, bias, need_weights)
    )
    return seen


def given(may_read: MayRead | None, causal: bool, bias: Bias | None, need_weights: bool) -> dict[str, Any]:
    """Those that are not the defaults, for a context that may know none of them."""
    options = {"may_read": may_read, "causal": causal, "bias": bias, "need_weights": need_weights}
    defaults = {"may_read": None, "causal": False, "bias": None, "need_weights": True}
    return {name: option for name, option in options.items() if option is not defaults[name]}


def one_by_one(
    step: Callable[[Query, Any, History], tuple[Contexts, Weights, History]],
    query: Query,
    source: Any,
    history: History,
) -> tuple[Contexts, Weights]:
    """Contexts and weights of T queries, taken as T steps from the one after `history` on."""
    seen = []
    for t, one in enumerate(torch.split(query, 1, dim=1)):
        contexts, weights, history = step(one, source.for_query(t), history)
        seen.append((contexts, weights))
    contexts, weights = (torch.cat(part, dim=1) for part in zip(*seen, strict=True))
    return contexts, weights
