"""Multi-head attention: several attentions at once, each on its own projections."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention
from seq2seq_attn.attention.history import History, each_tensor
from seq2seq_attn.attention.registry import need_positive
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import check_query, check_source


class MultiHeadSource(NamedTuple):
    """A source in which every head is a sentence; the heads of one sentence are neighbours."""

    of_heads: Any  # what the attention of the heads prepared, of B * heads sentences
    heads: int

    @property
    def sentences(self) -> int:
        """B."""
        sentences: int = self.of_heads.sentences
        return sentences // self.heads

    def select(self, rows: Tensor) -> MultiHeadSource:
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        heads = torch.arange(self.heads, device=rows.device)
        return self._replace(of_heads=self.of_heads.select((rows[:, None] * self.heads + heads).flatten()))


class MultiHead(Context):
    """W_O [C^1; ...; C^n], C^m = attention(W_Q^m q, W_K^m k, W_V^m v) (Vaswani et al. 2017, sec. 3.2.2).

    `attention` has the sizes of one head and any scorer, normaliser and window; the heads share it, and differ in
    their projections, which are applied to keys and values once per sentence. W_Q is (heads * attention.query_size,
    query_size), W_K and W_V likewise, W_O (value_size, heads * attention.value_size). `value_size` is the width of the
    values, to be given where they are not as wide as the keys, and of what the decoder sees.

    The weights are the mean of those of the heads; `head_weights` gives all of them.
    """

    reads_query = True

    def __init__(
        self,
        attention: Attention | ChunkwiseAttention,
        heads: int,
        query_size: int,
        key_size: int,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        value_size = key_size if value_size is None else value_size
        need_positive(self, heads=heads, query_size=query_size, key_size=key_size, value_size=value_size)
        self.attention = attention
        self.heads = heads
        self.query_size, self.key_size, self.value_size = query_size, key_size, value_size
        self.needs_history = attention.needs_history
        self.query_layer = nn.Linear(query_size, heads * attention.query_size, bias=False)
        self.key_layer = nn.Linear(key_size, heads * attention.key_size, bias=False)
        self.value_layer = nn.Linear(value_size, heads * attention.value_size, bias=False)
        self.output_layer = nn.Linear(heads * attention.value_size, value_size, bias=False)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> MultiHeadSource:
        check_source(self, keys, values, is_token, self.key_size, self.value_size)
        of_heads = self.attention.prepare(
            self._split(self.key_layer(keys)),
            self._split(self.value_layer(keys if values is None else values)),
            None if is_token is None else is_token.repeat_interleave(self.heads, dim=0),
        )
        return MultiHeadSource(of_heads, self.heads)

    def reader(self) -> Context:
        return self.attention.reader()

    def start(self, source: MultiHeadSource) -> History:
        return each_tensor(self._by_sentence, self.attention.start(source.of_heads))

    def forward(self, query: Query, source: MultiHeadSource, history: History | None = None) -> Any:
        queries = self._project(query, source)
        if history is None:
            return self._join(*self.attention(queries, source.of_heads))
        contexts, weights, history = self.attention(queries, source.of_heads, each_tensor(_by_head, history))
        return *self._join(contexts, weights), each_tensor(self._by_sentence, history)

    def head_weights(self, query: Query, source: MultiHeadSource) -> Tensor:
        """The weights of every head (B, heads, T, S), from the first step on."""
        weights: Tensor
        _, weights = self.attention(self._project(query, source), source.of_heads)
        return torch.unflatten(weights, 0, (-1, self.heads))

    def _project(self, query: Query, source: MultiHeadSource) -> Tensor:
        """The queries of the heads (B * heads, T, attention.query_size)."""
        check_query(self, query, source.sentences, self.query_size)
        return self._split(self.query_layer(query))

    def _split(self, vectors: Tensor) -> Tensor:
        """(B, N, heads * size) to (B * heads, N, size)."""
        return torch.unflatten(vectors, -1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)

    def _join(self, contexts: Tensor, weights: Tensor) -> tuple[Contexts, Weights]:
        """From B * heads contexts and weights to one context and the mean weights of each of B sentences."""
        joined = self._by_sentence(contexts).flatten(2)
        return self.output_layer(joined), torch.unflatten(weights, 0, (-1, self.heads)).mean(dim=1)

    def _by_sentence(self, tensor: Tensor) -> Tensor:
        """(B * heads, K, ...) to (B, K, heads, ...), with the hypotheses where a beam search reorders them."""
        return torch.unflatten(tensor, 0, (-1, self.heads)).transpose(1, 2)


def _by_head(tensor: Tensor) -> Tensor:
    """(B, K, heads, ...) to (B * heads, K, ...)."""
    return tensor.transpose(1, 2).flatten(0, 1)
