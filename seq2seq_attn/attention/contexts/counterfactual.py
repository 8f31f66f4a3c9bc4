"""Counterfactual: what would have been seen under other weights than those that attention gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.history import History
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, TokenRows, Values, Weights


@runtime_checkable
class Change(Protocol):
    """What makes other weights (B, T, S) of those of B sentences, in place of which they are read; see `changes.py`."""

    def __call__(self, weights: Weights, is_token: TokenRows, /) -> Weights: ...


class CounterfactualSource(NamedTuple):
    """A source, and what is summed of it."""

    read: Any  # what the context prepared
    values: Tensor  # (B, S, value_size)
    is_token: Tensor  # (B, 1, S)

    @property
    def sentences(self) -> int:
        """B."""
        return self.values.shape[0]

    def select(self, rows: Tensor) -> CounterfactualSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        values, is_token = self.values.index_select(0, rows), self.is_token.index_select(0, rows)
        return CounterfactualSource(self.read.select(rows), values, is_token)


class Counterfactual(Context):
    """C_i = Σ_j a'_ij v_j, where a' is made of the weights a of `context` by a change, on the same sentences.

    The sentences of a batch stand in it 1 + len(changes) times, a whole batch after the other. The first copy is read
    as `context` reads it. Each other copy is read under the weights of the first, changed by its own change; so they
    are those of a model that was left alone, also where the changed copies have led to other queries. `context` is
    the part that sums the values itself (`Context.reader`). It keeps the history, which knows of no change.
    """

    reads_query = True

    def __init__(self, context: Context, changes: Sequence[Change]) -> None:
        super().__init__()
        self.context = context
        self.changes = tuple(changes)
        self.value_size = context.value_size
        self.needs_history = context.needs_history

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

    def forward(self, query: Query, source: CounterfactualSource, history: History | None = None) -> Any:
        _, weights, *later = self.context(query, source.read, history)
        return *self._sum(weights, source), *later

    def _sum(self, weights: Weights, source: CounterfactualSource) -> tuple[Contexts, Weights]:
        sentences = len(weights) // (1 + len(self.changes))
        own, is_token = weights[:sentences], source.is_token[:sentences]
        read = torch.cat([own, *(change(own, is_token) for change in self.changes)])
        return torch.bmm(read, source.values), read
