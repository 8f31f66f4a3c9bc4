"""Multi-head attention: several attentions at once, each on its own projections; and with torch's own signature."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.context import Context, given
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention
from seq2seq_attn.attention.history import History, each_tensor
from seq2seq_attn.attention.normaliser import Normaliser
from seq2seq_attn.attention.registry import need_positive
from seq2seq_attn.attention.scorer import ScorerFactory
from seq2seq_attn.attention.scorers.scaled_dot import ScaledDot
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import check_extension, check_query, check_source


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

    `bias` gives each of the four layers one. The weights are the mean of those of the heads; `head_weights` gives all
    of them. A call's `may_read` and `bias` broadcast to (B, T, S), the same for all heads, or with four dimensions to
    (B, heads, T, S). Its errors name rows of the heads: sentence * heads + head.
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
    ) -> None:
        super().__init__()
        value_size = key_size if value_size is None else value_size
        need_positive(self, heads=heads, query_size=query_size, key_size=key_size, value_size=value_size)
        self.attention = attention
        self.heads = heads
        self.query_size, self.key_size, self.value_size = query_size, key_size, value_size
        self.needs_history = attention.needs_history
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
        of_heads = self.attention.extend(source.of_heads, *self._project(keys, values, is_token))
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
        of_heads = each_tensor(_by_head, history)
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
        """The weights of every head (B, heads, T, S), from the first step on."""
        queries, options = self._ask(query, source, may_read, causal, bias)
        weights: Tensor
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
        """The queries of the heads (B * heads, T, attention.query_size), and the options of their call."""
        check_query(self, query, source.sentences, self.query_size)
        rows = [self._per_row(name, part, query) for name, part in (("may_read", may_read), ("bias", bias))]
        return split_heads(self.query_layer(query), self.heads), given(rows[0], causal, rows[1], need_weights)

    def _project(self, keys: Keys, values: Values | None, is_token: IsToken | None) -> tuple[Any, ...]:
        """Keys, values and mask of the heads, B * heads rows."""
        return (
            split_heads(self.key_layer(keys), self.heads),
            split_heads(self.value_layer(keys if values is None else values), self.heads),
            None if is_token is None else is_token.repeat_interleave(self.heads, dim=0),
        )

    def _per_row(self, name: str, tensor: Tensor | None, query: Query) -> Tensor | None:
        """What broadcasts to (B, T, S) or (B, heads, T, S), for B * heads rows."""
        if tensor is None or tensor.dim() < 3 or (tensor.dim() == 3 and tensor.shape[0] == 1):
            return tensor
        of_heads = tensor if tensor.dim() == 4 else tensor[:, None]
        if of_heads.dim() != 4 or any(
            size not in (1, full) for size, full in zip(of_heads.shape, (query.shape[0], self.heads), strict=False)
        ):
            raise ValueError(
                f"MultiHead needs a {name} (sentences, queries, positions) or (sentences, heads, queries, positions), "
                f"here ({query.shape[0]}, {self.heads}, ...), got {tuple(tensor.shape)}"
            )
        return of_heads.expand(query.shape[0], self.heads, -1, -1).flatten(0, 1)

    def _join(self, contexts: Tensor, weights: Tensor | None) -> tuple[Contexts, Weights | None]:
        """From B * heads contexts and weights to one context and the mean weights of each of B sentences."""
        joined: Tensor = self.output_layer(join_heads(contexts, self.heads))
        return joined, None if weights is None else torch.unflatten(weights, 0, (-1, self.heads)).mean(dim=1)

    def _by_sentence(self, tensor: Tensor) -> Tensor:
        """(B * heads, K, ...) to (B, K, heads, ...), with the hypotheses where a beam search reorders them."""
        return torch.unflatten(tensor, 0, (-1, self.heads)).transpose(1, 2)


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """(B, N, heads * size) to (B * heads, N, size)."""
    return torch.unflatten(vectors, -1, (heads, -1)).transpose(1, 2).flatten(0, 1)


def join_heads(vectors: Tensor, heads: int) -> Tensor:
    """(B * heads, N, size) to (B, N, heads * size)."""
    return torch.unflatten(vectors, 0, (-1, heads)).transpose(1, 2).flatten(2)


def _by_head(tensor: Tensor) -> Tensor:
    """(B, K, heads, ...) to (B * heads, K, ...)."""
    return tensor.transpose(1, 2).flatten(0, 1)


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with any scorer and normaliser: the same signature, parameters and results.

        layer.multihead_attn = MultiheadAttention.from_torch(layer.multihead_attn, scorer=Additive)

    The projections are torch's, by the same names, so that state dicts go both ways; what the scorer learns is added
    under `attention.scorer`. All heads share one scorer. With `ScaledDot` and softmax this is torch's own attention.

    Arguments are those of `nn.MultiheadAttention`, except `add_bias_kv` and `add_zero_attn`. Its masks keep torch's
    meaning, the opposite of that of `is_token` and `may_read`: True where a position is *not* read, or a float that is
    added. Two things differ: a query to which nothing is left is an error where it can be seen, not NaN, and
    `is_causal=True` without an `attn_mask` is causal, not an error. Nested tensors are not taken.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        scorer: ScorerFactory = ScaledDot,
        normaliser: Normaliser | None = None,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias, False, False, kdim, vdim, batch_first, device, dtype)
        # torch's encoder layers would compute scaled dot products from the parameters, without a call of this module.
        self._qkv_same_embed_dim = False
        one = Attention(scorer(query_size=self.head_dim, key_size=self.head_dim), normaliser, dropout=dropout)
        self.attention = one.to(device=device, dtype=dtype)

    @classmethod
    def from_torch(
        cls, module: nn.MultiheadAttention, *, scorer: ScorerFactory = ScaledDot, normaliser: Normaliser | None = None
    ) -> MultiheadAttention:
        """The same sizes, dropout, device, precision and mode, with a copy of the module's parameters.

        ValueError: the module was made with `add_bias_kv` or `add_zero_attn`.
        """
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError("MultiheadAttention has no add_bias_kv and no add_zero_attn; the module was made with one")
        weight = module.out_proj.weight
        ours = cls(
            module.embed_dim, module.num_heads, module.dropout, module.in_proj_bias is not None, module.kdim,
            module.vdim, module.batch_first, weight.device, weight.dtype, scorer=scorer, normaliser=normaliser,
        )  # fmt: skip
        ours.load_state_dict(ours.state_dict() | module.state_dict())
        for name, parameter in module.named_parameters():
            ours.get_parameter(name).requires_grad_(parameter.requires_grad)
        return ours.train(module.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Output like `query`, and the weights (B, T, S), (B, num_heads, T, S) if not averaged, or None.

        query (B, T, embed_dim), key (B, S, kdim) and value (B, S, vdim), if `batch_first`; otherwise the first two
        dimensions are exchanged; without B for one sentence. key_padding_mask (B, S) or (S,), attn_mask (T, S) or
        (B * num_heads, T, S). As in torch `is_causal` is a hint where there is an `attn_mask`, which is what counts.
        """
        if query.is_nested:
            raise ValueError(
                "MultiheadAttention takes no nested tensors; make nn.TransformerEncoder with enable_nested_tensor=False"
            )
        is_batch, heads = query.dim() == 3, self.num_heads
        if not is_batch:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        queries, keys, values = (split_heads(each, heads) for each in self._projected(query, key, value))

        is_token, key_bias = _from_torch(key_padding_mask)
        may_read, bias = _from_torch(attn_mask)
        if key_bias is not None:
            key_bias = key_bias.repeat_interleave(heads, dim=0)[:, None]
            bias = key_bias if bias is None else key_bias + bias
        is_token = None if is_token is None else is_token.repeat_interleave(heads, dim=0)
        is_causal = is_causal and attn_mask is None
        options = given(may_read, is_causal, bias, need_weights)
        contexts, weights = self.attention(queries, self.attention.prepare(keys, values, is_token), **options)

        output: Tensor = self.out_proj(join_heads(contexts, heads))
        if weights is not None:
            weights = torch.unflatten(weights, 0, (-1, heads))
            weights = weights.mean(dim=1) if average_attn_weights else weights
        if not is_batch:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        in_proj_weight = cast("Tensor | None", self.in_proj_weight)
        if in_proj_weight is None:
            weights: tuple[Tensor, ...] = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        else:
            weights = in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(*each) for each in zip((query, key, value), weights, biases, strict=True)]


def _from_torch(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Where positions are read, and what is added, of a mask that is True where they are not, or is itself added."""
    if mask is None:
        return None, None
    return (~mask, None) if mask.dtype == torch.bool else (None, mask)
