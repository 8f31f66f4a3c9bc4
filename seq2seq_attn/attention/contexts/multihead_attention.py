"""`nn.MultiheadAttention` of torch, with any scorer and normalizer."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.checks import check_source, jit_traced, unfit
from seq2seq_attn.attention.contexts.multi_head import join_heads, split_heads
from seq2seq_attn.attention.normalizer import Normalizer
from seq2seq_attn.attention.scorer import ScorerFactory, new_scorer
from seq2seq_attn.attention.scorers.scaled_dot import ScaledDot


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with any scorer and normalizer, and the same signature, parameters and results.

        layer.multihead_attn = MultiheadAttention.from_torch(layer.multihead_attn, scorer=Additive)

    The projections have the names that they have in torch, so that state dicts load in both directions; parameters of
    the scorer are added under `attention.scorer`. All heads share one scorer. With `ScaledDot` and softmax the results
    are those of torch's module. Masks keep torch's meaning, the opposite of `is_token`
    and `may_read`: True where a position is *not* read, or a float that is added to the scores. Two things differ: a
    query that may read no position is an error instead of NaN, where this can be detected, and `is_causal=True` without
    an `attn_mask` is causal instead of an error. Nested tensors are not supported.

    Args:
        embed_dim: The width of the queries and of the output; this and the next arguments are those of
            `nn.MultiheadAttention`.
        num_heads: The number of heads.
        dropout: The probability of setting a weight to 0 in training mode.
        bias: Adds biases to the projections.
        add_bias_kv: Adds a learned position to keys and values.
        add_zero_attn: Adds a position of zeros.
        kdim: The width of the keys, if it differs.
        vdim: The width of the values, if it differs.
        batch_first: Inputs are (B, N, width) instead of (N, B, width).
        device: Where the parameters are.
        dtype: Their type.
        scorer: Creates the scorer of a head, whose queries and keys have the size embed_dim / num_heads.
        normalizer: What replaces softmax.
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
        """Copies a module of torch.

        Args:
            module: The module of torch.
            scorer: As in the constructor.
            normalizer: As in the constructor.

        Returns:
            A module of the same sizes, dropout, device, dtype and mode, with a copy of the parameters.
        """
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
        """Computes multi-head attention; shapes are with `batch_first`, otherwise the first two dimensions are swapped.

        Args:
            query: (B, T, embed_dim); for one sentence, B is omitted everywhere.
            key: (B, S, kdim).
            value: (B, S, vdim).
            key_padding_mask: (B, S), True on padding, or added to the scores.
            need_weights: False returns None in place of the weights.
            attn_mask: (T, S) or (B * num_heads, T, S), True where a query does not read, or added to the scores.
            average_attn_weights: Whether the weights are the mean over the heads.
            is_causal: As in torch, only a hint if there is an `attn_mask`, which takes effect.

        Returns:
            The output, shaped like `query`, and the weights (B, T, S), (B, num_heads, T, S) if not averaged.

        Raises:
            ValueError: Shapes or dtypes do not fit, or a query may read no position.
        """
        if query.is_nested:
            way_out = "create nn.TransformerEncoder with enable_nested_tensor=False"
            raise unfit(self, "tensors with padding", "a nested one", way_out)
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
        source = self.attention.prepare(keys, values, is_token)
        is_causal = is_causal and attn_mask is None
        contexts, weights = self.attention(
            queries, source, may_read=may_read, causal=is_causal, bias=bias, need_weights=need_weights
        )
        output = self.out_proj(join_heads(contexts, heads))
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
            raise unfit(self, "query, key and value of 3 dimensions, or all of 2", got)
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
                raise unfit(self, f"{name} {wanted}", tensor)
            if name.endswith("mask") and tensor.dtype != torch.bool and not tensor.dtype.is_floating_point:
                kinds = "a bool tensor, True where a position is not read, or a float tensor added to the scores"
                raise unfit(self, f"{name} as {kinds}", tensor.dtype)

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
