"""Self-attention: query, keys and values come from one sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from seq2seq_attn.attention.checks import need_instance, unfit
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Weights


class SelfAttention(nn.Module):
    """C_i = Σ_j a_ij v_j with q_i, k_j and v_j from one sequence x (Vaswani et al. 2017, sec. 3.2.3).

        contexts, weights = SelfAttention(MultiHead(attention, heads, size, size), causal=True)(vectors)

    Args:
        attention: Any context that reads with a query and carries nothing from step to step.
        causal: C_i depends on x_1, ..., x_i only, and `step` appends to a cache of keys and values.

    Raises:
        ValueError: The attention's queries and keys differ in size or have none, it has a history, or it cannot append
            to a source and `causal` is true.
    """

    def __init__(self, attention: Context, causal: bool = False) -> None:
        super().__init__()
        need_instance(self, Context, attention=attention)
        name = type(attention).__name__
        if not attention.reads_query:
            raise unfit(self, "a context that reads with a query", name)
        query_size, key_size = (getattr(attention, size, None) for size in ("query_size", "key_size"))
        if query_size is None or key_size is None:
            raise unfit(self, "the sizes of queries and keys", f"{name} without them", "set query_size and key_size")
        if query_size != key_size:
            got = f"{query_size} and {key_size}"
            raise unfit(self, f"query_size == key_size in {name}, as both are of one sequence", got)
        if attention.needs_history:
            way_out = "choose another scorer, normalizer or window (coverage, location-aware and monotonic do)"
            raise unfit(self, "to read all positions at once", f"{name}, which depends on earlier steps", way_out)
        if causal:
            one = next(attention.parameters(), torch.empty(0)).new_zeros(1, 1, key_size)
            attention.extend(attention.prepare(one), one)  # its error says which part cannot append to a source
        self.attention = attention
        self.causal = causal

    def forward(
        self, vectors: Keys, is_token: IsToken | None = None, *, need_weights: bool = True
    ) -> tuple[Contexts, Weights | None]:
        """Reads a sequence by itself.

        Args:
            vectors: x (B, N, size).
            is_token: True on tokens (B, N).
            need_weights: False returns None in place of the weights.

        Returns:
            The contexts (B, N, value_size) and the weights (B, N, N).
        """
        source = self.attention.prepare(vectors, is_token=is_token)
        contexts, weights = self.attention(vectors, source, causal=self.causal, need_weights=need_weights)
        return contexts, weights

    def step(self, vectors: Keys, cache: Any | None) -> tuple[Contexts, Any]:
        """Reads with the next vectors of a sequence.

        Args:
            vectors: x (B, M, size).
            cache: The keys and values before; None: these vectors are the first.

        Returns:
            The contexts (B, M, value_size), and the cache with the keys and values of these vectors.
        """
        attention = self.attention
        cache = attention.prepare(vectors) if cache is None else attention.extend(cache, vectors)
        # A single vector may read everything that is in the cache.
        contexts, _ = attention(vectors, cache, causal=vectors.shape[1] > 1, need_weights=False)
        return contexts, cache
