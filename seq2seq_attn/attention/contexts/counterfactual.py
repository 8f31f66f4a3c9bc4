"""Counterfactual: contexts under weights that differ from those that attention computed.

Changes preserve the sum of each row of weights, so that they affect where the source is read and not how much. Weights
on padding stay 0. Weights are (B, N, S) for N steps, or for N = heads * T rows: all steps of a head, then those of the
next. `is_token` is (B, 1, S). Random numbers are drawn on the CPU from the given generator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from seq2seq_attn.attention.checks import refuse
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.normalizers.shuffled import reordered
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, TokenRows, Values, Weights
from seq2seq_attn.attention.source import History


@runtime_checkable
class Change(Protocol):
    """Maps the weights (B, N, S) of B sentences to the weights that replace them."""

    def __call__(self, weights: Weights, is_token: TokenRows, /) -> Weights:
        """Returns the weights that replace these (B, N, S); `is_token` is (B, 1, S)."""


class CounterfactualSource(NamedTuple):
    """A prepared source, and the values to be summed."""

    read: Any  # the source that the context prepared
    values: Tensor  # (B, S, value_size)
    is_token: Tensor  # (B, 1, S)

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]

    def select(self, rows: Tensor) -> CounterfactualSource:
        """Returns the record with these sentences (M,), as `PreparedSource.select`."""
        values, is_token = self.values.index_select(0, rows), self.is_token.index_select(0, rows)
        return CounterfactualSource(self.read.select(rows), values, is_token)


class RecomputedContext(Context):
    """A context that is computed again from the weights of another; subclasses say how. Histories are not affected.

    Args:
        context: The module that sums the values itself (`Context.reader`).
        heads: The neighboring rows that each sentence has in the batch.
    """

    reads_query = True

    def __init__(self, context: Context, heads: int = 1) -> None:
        super().__init__()
        self.context = context
        self.heads = heads
        self.value_size = context.value_size
        self.needs_history = context.needs_history

    @abstractmethod
    def recomputed(
        self, contexts: Contexts, weights: Weights, source: CounterfactualSource
    ) -> tuple[Contexts, Weights]:
        """Returns what replaces contexts and weights.

        Args:
            contexts: Those that were read (B, T, value_size).
            weights: Those under which they were read (B, T, S).
            source: The source that was read.
        """

    def prepare(
        self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None
    ) -> CounterfactualSource:
        everywhere = keys.new_ones(keys.shape[:2], dtype=torch.bool)
        return CounterfactualSource(
            self.context.prepare(keys, values, is_token),
            keys if values is None else values,
            (everywhere if is_token is None else is_token)[:, None],
        )

    def start(self, source: CounterfactualSource) -> History:
        return self.context.start(source.read)

    def condition(self, history: History, log_likelihood: Weights) -> History:
        return self.context.condition(history, log_likelihood)

    def forward(
        self,
        query: Query,
        source: CounterfactualSource,
        history: History | None = None,
        *,
        need_weights: bool = True,
        **options: Any,
    ) -> Any:
        refuse(self, "its changes support only a mask of tokens", **options)
        contexts, weights, *later = self.context(query, source.read, history)
        contexts, weights = self.recomputed(contexts, weights, source)
        return contexts, weights if need_weights else None, *later


class Counterfactual(RecomputedContext):
    """C_i = Σ_j a'_ij v_j, where a' = change(a) for the weights a of `context`.

    A batch holds its sentences 1 + len(changes) times, one complete copy after another. The first copy is read with the
    weights of `context`. Every other copy is read with the weights of the first copy after its own change: they are the
    weights of the unchanged model, even if a changed copy has produced other queries.

    Args:
        context: The module that sums the values itself (`Context.reader`).
        changes: One for every further copy; it gets the rows of all heads of a sentence together.
        heads: The neighboring rows that each sentence has in the batch.
    """

    def __init__(self, context: Context, changes: Sequence[Change], heads: int = 1) -> None:
        super().__init__(context, heads)
        self.changes = tuple(changes)

    def recomputed(
        self, contexts: Contexts, weights: Weights, source: CounterfactualSource
    ) -> tuple[Contexts, Weights]:
        by_sentence = torch.unflatten(weights, 0, (-1, self.heads)).flatten(1, 2)  # (B, heads * T, S)
        sentences = len(by_sentence) // (1 + len(self.changes))
        own, is_token = by_sentence[:sentences], source.is_token[:: self.heads][:sentences]
        read = torch.cat([own, *(change(own, is_token) for change in self.changes)])
        read = torch.unflatten(read, 1, (self.heads, -1)).flatten(0, 1)
        return torch.bmm(read, source.values), read


def uniform(weights: Weights, is_token: TokenRows) -> Weights:
    """Every token gets the same weight, as in `MeanContext`."""
    return _with_the_sum_of(weights, is_token.expand_as(weights).to(weights.dtype))


def permuted(weights: Weights, is_token: TokenRows, generator: Generator) -> Weights:
    """A random permutation of the weights of the tokens, a different one for each row (Jain & Wallace 2019)."""
    return reordered(weights, is_token, _draw(weights, generator))


def of_another_sentence(weights: Weights, is_token: TokenRows) -> Weights:
    """The row of another sentence at the same step, truncated at the end of this sentence or padded with 0.

    If truncation leaves only zeros, the weights are uniform. The batch needs at least two sentences; the other one is
    half a batch away.
    """
    cut = weights.roll(len(weights) // 2, dims=0) * is_token
    nothing = cut.sum(dim=-1, keepdim=True) == 0
    return _with_the_sum_of(weights, torch.where(nothing, is_token.to(cut.dtype), cut))


def without_the_most_read(weights: Weights, is_token: TokenRows) -> Weights:
    """The token with the highest weight gets 0 (Serrano & Smith 2019): under softmax, as if its key were masked."""
    return _with_the_sum_of(weights, weights.masked_fill(_highest(weights), 0.0))


def without_another(weights: Weights, is_token: TokenRows, generator: Generator) -> Weights:
    """A random token other than the one with the highest weight gets 0; no change if there is no other token."""
    others = is_token & ~_highest(weights)
    erased = others & _highest(torch.where(others, _draw(weights, generator), -1.0))
    return _with_the_sum_of(weights, weights.masked_fill(erased, 0.0))


def _with_the_sum_of(weights: Weights, rows: Weights) -> Weights:
    """The rows, scaled to the sums of the weights; a row of zeros stays zero."""
    total = rows.sum(dim=-1, keepdim=True)
    return rows * (weights.sum(dim=-1, keepdim=True) / total.where(total > 0, 1.0))


def _highest(rows: Weights) -> TokenRows:
    """True at one maximum of each row."""
    return torch.zeros_like(rows, dtype=torch.bool).scatter(-1, rows.argmax(dim=-1, keepdim=True), True)


def _draw(weights: Weights, generator: Generator) -> Weights:
    return torch.rand(weights.shape, generator=generator).to(weights)
