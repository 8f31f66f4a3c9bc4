"""Multi-head attention: several attentions in parallel, each on its own projections."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.checks import (
    check_bias,
    check_broadcast,
    check_extension,
    check_query,
    check_source,
    need_instance,
    need_positive,
    need_tensors,
    unfit,
)
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention
from seq2seq_attn.attention.position import Position
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import History, each_tensor


class MultiHeadSource(NamedTuple):
    """A source in which every head is a row of the batch; the heads of a sentence are neighbors."""

    of_heads: Any  # the source of the heads' attention, with B * heads sentences
    heads: int

    @property
    def sentences(self) -> int:
        """B."""
        sentences: int = self.of_heads.sentences
        return sentences // self.heads

    def select(self, rows: Tensor) -> MultiHeadSource:
        """Returns the record with these sentences (M,), as `PreparedSource.select`."""
        heads = torch.arange(self.heads, device=rows.device)
        return self._replace(of_heads=self.of_heads.select((rows[:, None] * self.heads + heads).flatten()))


class MultiHead(Context):
    """W_O [C^1; ...; C^n], C^m = attention(W_Q^m q, W_K^m k, W_V^m v) (Vaswani et al. 2017, sec. 3.2.2).

    The heads share the attention and differ in their projections, which are applied to keys and values once per
    sentence: W_Q is (heads * attention.query_size, query_size), W_K and W_V likewise, W_O (value_size, heads *
    attention.value_size). The weights are the mean over the heads; `head_weights` returns those of every head. In a
    call, `may_read` and `bias` broadcast to (B, T, S), the same for all heads, or with four dimensions to (B, heads, T,
    S). Error messages about single queries number the rows of the heads: sentence * heads + head.

    Args:
        attention: Has the sizes of one head, and any scorer, normalizer and window.
        heads: n.
        query_size: The width of a query.
        key_size: The width of a key.
        value_size: The width of the values and of the context, if it differs from `key_size`.
        bias: Adds a bias to each of the four layers.
        position: For self-attention (`SelfAttention`): the queries then are the last T of the S positions, their
            projections and those of the keys are rotated, and its bias is added to the scores.

    Raises:
        ValueError: A size is not above 0, or the position cannot be used within attention.
    """

    reads_query = True

    def __init__(
        self,
        attention: Attention | ChunkwiseAttention,
        heads: int,
        query_size: int,
        key_size: int,
        value_size: int | None = None,
        bias: bool = False,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        need_instance(self, Context, attention=attention)
        value_size = key_size if value_size is None else value_size
        need_positive(self, heads=heads, query_size=query_size, key_size=key_size, value_size=value_size)
        if position is not None:
            need_instance(self, Position, position=position)
            if not isinstance(attention, Attention):
                raise unfit(self, "Attention to take a position", type(attention).__name__)
            if not position.in_attention:
                way_out = "add it to keys and queries: position.add(vectors)"
                raise unfit(self, "a position that acts within attention", type(position).__name__, way_out)
        self.attention = attention
        self.heads = heads
        self.query_size, self.key_size, self.value_size = query_size, key_size, value_size
        self.needs_history = attention.needs_history
        self.position = position
        self.query_layer = nn.Linear(query_size, heads * attention.query_size, bias=bias)
        self.key_layer = nn.Linear(key_size, heads * attention.key_size, bias=bias)
        self.value_layer = nn.Linear(value_size, heads * attention.value_size, bias=bias)
        self.output_layer = nn.Linear(heads * attention.value_size, value_size, bias=bias)

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> MultiHeadSource:
        check_source(self, keys, values, is_token, self.key_size, self.value_size)
        return MultiHeadSource(self.attention.prepare(*self._project(keys, values, is_token)), self.heads)

    def extend(
        self, source: MultiHeadSource, keys: Keys, values: Values | None = None, is_token: IsToken | None = None
    ) -> MultiHeadSource:
        check_source(self, keys, values, None, self.key_size, self.value_size)
        check_extension(self, source.sentences, keys, is_token)
        start = 0 if self.position is None else source.of_heads.values.shape[1]
        of_heads = self.attention.extend(source.of_heads, *self._project(keys, values, is_token, start))
        return source._replace(of_heads=of_heads)

    def reader(self) -> Context:
        return self.attention.reader()

    def start(self, source: MultiHeadSource) -> History:
        return each_tensor(self._by_sentence, self.attention.start(source.of_heads))

    def forward(
        self,
        query: Query,
        source: MultiHeadSource,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        queries, options = self._ask(query, source, may_read, causal, bias, need_weights)
        if history is None:
            return self._join(*self.attention(queries, source.of_heads, **options))
        of_heads = each_tensor(_heads_first, history)
        contexts, weights, history = self.attention(queries, source.of_heads, of_heads, **options)
        return *self._join(contexts, weights), each_tensor(self._by_sentence, history)

    def head_weights(
        self,
        query: Query,
        source: MultiHeadSource,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
    ) -> Tensor:
        """Computes the weights of every head, starting at the first step.

        Args:
            query: T queries (B, T, query_size).
            source: What `prepare` returned.
            may_read: As in the call, as are causal and bias.
            causal: The queries are the last T positions.
            bias: Added to the scores.

        Returns:
            a (B, heads, T, S).
        """
        queries, options = self._ask(query, source, may_read, causal, bias)
        _, weights = self.attention(queries, source.of_heads, **options)
        return torch.unflatten(weights, 0, (-1, self.heads))

    def _ask(
        self,
        query: Query,
        source: MultiHeadSource,
        may_read: Tensor | None,
        causal: bool,
        bias: Tensor | None,
        need_weights: bool = True,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The queries of the heads (B * heads, T, attention.query_size), and the options for their attention."""
        check_query(self, query, source, self.query_size)
        need_tensors(self, may_read=may_read, bias=bias)
        shape = query.shape[0], self.heads, query.shape[1], source.of_heads.values.shape[1]
        queries = split_heads(self.query_layer(query), self.heads)
        may_read = self._by_head("may_read", may_read, shape)
        if bias is not None:
            check_bias(self, bias)
            bias = self._by_head("bias", bias, shape)
        if self.position is not None:
            steps, positions = shape[2:]
            queries = self.position.rotate(queries, positions - steps)
            own = self.position.bias(steps, positions)
            if own is not None:
                bias = own[None] if bias is None else own[None] + bias
        may_read, bias = (self._rows(part, shape) for part in (may_read, bias))
        return queries, {"may_read": may_read, "causal": causal, "bias": bias, "need_weights": need_weights}

    def _rows(self, tensor: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
        """(B, heads, T, S) to (B * heads, T, S); what is the same for all stays one row."""
        if tensor is None or tensor.shape[:2] == (1, 1):
            return None if tensor is None else tensor[0]
        return tensor.expand(*shape[:2], -1, -1).flatten(0, 1)

    def _by_head(self, name: str, tensor: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
        """A tensor that broadcasts to (B, T, S) or (B, heads, T, S), with four dimensions."""
        if tensor is None:
            return None
        check_broadcast(self, name, tensor, shape if tensor.dim() > 3 else (shape[0], *shape[2:]))
        return tensor[:, None] if tensor.dim() == 3 else tensor[(None,) * (4 - tensor.dim())]

    def _project(self, keys: Keys, values: Values | None, is_token: IsToken | None, start: int = 0) -> tuple[Any, ...]:
        """Keys, values and mask of the heads, with B * heads rows; the keys stand at the positions from `start`."""
        of_heads = split_heads(self.key_layer(keys), self.heads)
        return (
            of_heads if self.position is None else self.position.rotate(of_heads, start),
            split_heads(self.value_layer(keys if values is None else values), self.heads),
            None if is_token is None else is_token.repeat_interleave(self.heads, dim=0),
        )

    def _join(self, contexts: Tensor, weights: Tensor | None) -> tuple[Contexts, Weights | None]:
        """Joins B * heads contexts and weights into the context and the mean weights of each of B sentences."""
        joined = self.output_layer(join_heads(contexts, self.heads))
        return joined, None if weights is None else torch.unflatten(weights, 0, (-1, self.heads)).mean(dim=1)

    def _by_sentence(self, tensor: Tensor) -> Tensor:
        """(B * heads, K, ...) to (B, K, heads, ...): beam search reorders hypotheses along dimension 1."""
        return torch.unflatten(tensor, 0, (-1, self.heads)).transpose(1, 2)


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """(B, N, heads * size) to (B * heads, N, size)."""
    return torch.unflatten(vectors, -1, (heads, -1)).transpose(1, 2).flatten(0, 1)


def join_heads(vectors: Tensor, heads: int) -> Tensor:
    """(B * heads, N, size) to (B, N, heads * size)."""
    return torch.unflatten(vectors, 0, (-1, heads)).transpose(1, 2).flatten(2)


def _heads_first(tensor: Tensor) -> Tensor:
    """(B, K, heads, ...) to (B * heads, K, ...)."""
    return tensor.transpose(1, 2).flatten(0, 1)
