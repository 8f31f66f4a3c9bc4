"""Multi-head attention: several attentions in parallel, each on its own projections; and one with torch's signature."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.context import Context, given
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention
from seq2seq_attn.attention.history import History, each_tensor
from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.position import Position
from seq2seq_attn.attention.registry import need_instance, need_positive
from seq2seq_attn.attention.scorer import ScorerFactory, new_scorer
from seq2seq_attn.attention.scorers.scaled_dot import ScaledDot
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Values, Weights
from seq2seq_attn.attention.source import check_bias, check_extension, check_query, check_source, jit_traced


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
        """The record with these sentences only, in this order; `rows` (M,) int64 may repeat one."""
        heads = torch.arange(self.heads, device=rows.device)
        return self._replace(of_heads=self.of_heads.select((rows[:, None] * self.heads + heads).flatten()))


class MultiHead(Context):
    """W_O [C^1; ...; C^n], C^m = attention(W_Q^m q, W_K^m k, W_V^m v) (Vaswani et al. 2017, sec. 3.2.2).

    `attention` has the sizes of one head and any scorer, normalizer and window. The heads share it and differ in their
    projections, which are applied to keys and values once per sentence. W_Q is (heads * attention.query_size,
    query_size), W_K and W_V likewise, W_O (value_size, heads * attention.value_size). `value_size` is the width of the
    values and of the context; it is needed only if it differs from `key_size`.

    `bias=True` adds a bias to each of the four layers. `position` is for self-attention (`SelfAttention`): the queries
    then are the last T of the S positions, their projections and those of the keys are rotated, and its bias is added
    to the scores. The weights are the mean over the heads; `head_weights` returns
    those of every head. In a call, `may_read` and `bias` broadcast to (B, T, S), the same for all heads, or with four
    dimensions to (B, heads, T, S). Error messages number the rows of the heads: sentence * heads + head.
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
        if position is not None and not isinstance(attention, Attention):
            raise ValueError(f"MultiHead takes a position with Attention only, got {type(attention).__name__}")
        if position is not None and not position.in_attention:
            raise ValueError(
                f"{type(position).__name__} acts on the embeddings, not within MultiHead; add it to the keys and the "
                f"queries: position.add(vectors)"
            )
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
        """The weights (B, heads, T, S) of every head, starting at the first step."""
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
        """The queries of the heads (B * heads, T, attention.query_size), and the options for their attention."""
        check_query(self, query, source, self.query_size)
        queries = split_heads(self.query_layer(query), self.heads)
        if self.position is not None:
            steps, positions = query.shape[1], source.of_heads.values.shape[1]
            queries = self.position.rotate(queries, positions - steps)
            bias = self._with_position_bias(bias, steps, positions)
        rows = [self._per_row(name, part, query) for name, part in (("may_read", may_read), ("bias", bias))]
        return queries, given(rows[0], causal, rows[1], need_weights)

    def _project(self, keys: Keys, values: Values | None, is_token: IsToken | None, start: int = 0) -> tuple[Any, ...]:
        """Keys, values and mask of the heads, with B * heads rows; the keys stand at the positions from `start`."""
        of_heads = split_heads(self.key_layer(keys), self.heads)
        return (
            of_heads if self.position is None else self.position.rotate(of_heads, start),
            split_heads(self.value_layer(keys if values is None else values), self.heads),
            None if is_token is None else is_token.repeat_interleave(self.heads, dim=0),
        )

    def _with_position_bias(self, bias: Tensor | None, queries: int, positions: int) -> Tensor | None:
        """The sum of the bias of a call and that of the positions, which is (1, heads, T, S)."""
        of_heads = None if self.position is None else self.position.bias(queries, positions)
        if of_heads is None:
            return bias
        if bias is None:
            return of_heads[None]
        check_bias(type(self).__name__, bias)
        return of_heads[None] + (bias[:, None] if bias.dim() == 3 else bias)

    def _per_row(self, name: str, tensor: Tensor | None, query: Query) -> Tensor | None:
        """A tensor that broadcasts to (B, T, S) or (B, heads, T, S), expanded to B * heads rows."""
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
        """Joins B * heads contexts and weights into the context and the mean weights of each of B sentences."""
        joined: Tensor = self.output_layer(join_heads(contexts, self.heads))
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


def _by_head(tensor: Tensor) -> Tensor:
    """(B, K, heads, ...) to (B * heads, K, ...)."""
    return tensor.transpose(1, 2).flatten(0, 1)


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with any scorer and normalizer, and the same signature, parameters and results.

        layer.multihead_attn = MultiheadAttention.from_torch(layer.multihead_attn, scorer=Additive)

    The projections have the names that they have in torch, so that state dicts load in both directions; parameters of
    the scorer are added under `attention.scorer`. All heads share one scorer. With `ScaledDot` and softmax the results
    are those of torch's module.

    The arguments are those of `nn.MultiheadAttention`. Masks keep torch's meaning, the opposite of `is_token`
    and `may_read`: True where a position is *not* read, or a float that is added to the scores. Two things differ: a
    query that may read no position is an error instead of NaN, where this can be detected, and `is_causal=True` without
    an `attn_mask` is causal instead of an error. Nested tensors are not supported.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        scorer: ScorerFactory = ScaledDot,
        normalizer: Normalizer | None = None,
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )  # fmt: skip
        # Otherwise torch's encoder layers would compute scaled dot products from the parameters, bypassing this module.
        self._qkv_same_embed_dim = False
        one = Attention(new_scorer(self, scorer, self.head_dim, self.head_dim), normalizer, dropout=dropout)
        self.attention = one.to(device=device, dtype=dtype)

    @property  # as torch's attribute, it may be changed at any time
    def dropout(self) -> float:
        return self.attention.dropout

    @dropout.setter
    def dropout(self, probability: float) -> None:
        if "attention" in self._modules:  # torch's constructor sets it before
            self.attention.dropout = probability

    @classmethod
    def from_torch(
        cls, module: nn.MultiheadAttention, *, scorer: ScorerFactory = ScaledDot, normalizer: Normalizer | None = None
    ) -> MultiheadAttention:
        """A module of the same sizes, dropout, device, dtype and mode, with a copy of the parameters."""
        weight = module.out_proj.weight
        ours = cls(
            module.embed_dim, module.num_heads, module.dropout, module.in_proj_bias is not None,
            module.bias_k is not None, module.add_zero_attn, module.kdim, module.vdim, module.batch_first,
            weight.device, weight.dtype, scorer=scorer, normalizer=normalizer,
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
        """The output, shaped like `query`, and the weights (B, T, S), (B, num_heads, T, S) if not averaged, or None.

        With `batch_first`, query is (B, T, embed_dim), key (B, S, kdim) and value (B, S, vdim); otherwise the first two
        dimensions are swapped; for one sentence, B is omitted. key_padding_mask is (B, S) or (S,), attn_mask (T, S) or
        (B * num_heads, T, S). As in torch, `is_causal` is only a hint if there is an `attn_mask`, which takes effect.
        """
        if query.is_nested:
            raise ValueError(
                "MultiheadAttention does not support nested tensors; create nn.TransformerEncoder with "
                "enable_nested_tensor=False"
            )
        self._check(query, key, value, key_padding_mask, attn_mask)
        is_batch, heads = query.dim() == 3, self.num_heads
        if not is_batch:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        queries, keys, values = (split_heads(each, heads) for each in self._projected(query, key, value))
        added = int(self.bias_k is not None) + int(self.add_zero_attn)  # positions after the keys, for every query
        if added and is_causal and attn_mask is None:
            steps, positions = query.shape[1], key.shape[1]
            attn_mask = torch.ones(steps, positions, dtype=torch.bool, device=key.device).triu(positions - steps + 1)
        key_padding_mask, attn_mask = (
            mask if mask is None else F.pad(mask, (0, added)) for mask in (key_padding_mask, attn_mask)
        )
        is_token, key_bias = _from_torch(key_padding_mask)
        if not added:
            check_source(self, key, value, is_token)  # here, where its errors count sentences and not rows of heads
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

    def _check(self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None) -> None:
        """ValueError in one line, with the names and shapes that the caller knows, for what does not fit."""
        if jit_traced():
            return
        if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
            got = ", ".join(str(tuple(each.shape)) for each in (query, key, value))
            raise ValueError(f"MultiheadAttention needs query, key and value of 3 dimensions, or all of 2, got {got}")
        axis = 1 if self.batch_first and query.dim() == 3 else 0  # of the positions
        steps, positions = query.shape[axis], key.shape[axis]

        def like_query(length: int, width: int | None) -> tuple[int | None, ...]:
            return (*query.shape[:axis], length, *query.shape[axis + 1 : -1], width)

        batch = query.shape[1 - axis : 2 - axis] if query.dim() == 3 else ()
        rows = math.prod(batch) * self.num_heads
        expected: dict[str, tuple[Tensor | None, list[Any]]] = {
            "query": (query, [like_query(steps, self.embed_dim)]),
            "key": (key, [like_query(positions, self.kdim)]),
            "value": (value, [like_query(positions, self.vdim)]),
            "key_padding_mask": (masks[0], [(*batch, positions)]),
            "attn_mask": (masks[1], [(steps, positions), (rows, steps, positions)]),
        }
        for name, (tensor, shapes) in expected.items():
            if tensor is None:
                continue
            if tuple(tensor.shape) not in shapes:
                wanted = " or ".join(map(str, shapes))
                raise ValueError(f"MultiheadAttention needs {name} {wanted}, got {tuple(tensor.shape)}")
            if name.endswith("mask") and tensor.dtype != torch.bool and not tensor.dtype.is_floating_point:
                raise ValueError(
                    f"MultiheadAttention needs {name} as a bool tensor, True where a position is not read, or a float "
                    f"tensor that is added to the scores, got {tensor.dtype}"
                )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        in_proj_weight = cast("Tensor | None", self.in_proj_weight)
        if in_proj_weight is None:
            weights: tuple[Tensor, ...] = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        else:
            weights = in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        queries, *others = (F.linear(*each) for each in zip((query, key, value), weights, biases, strict=True))
        for index, bias in enumerate((self.bias_k, self.bias_v)):
            if bias is not None:
                others[index] = torch.cat((others[index], bias.expand(query.shape[0], -1, -1)), dim=1)
            if self.add_zero_attn:
                others[index] = F.pad(others[index], (0, 0, 0, 1))
        return [queries, *others]


def _from_torch(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """A mask of torch, boolean (True where not read) or float (added to the scores), as `may_read` and `bias`."""
    if mask is None:
        return None, None
    return (~mask, None) if mask.dtype == torch.bool else (None, mask)
