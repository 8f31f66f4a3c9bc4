"""Self-attention: query, keys and values come from one sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.registry import need_instance
from seq2seq_attn.attention.shapes import Contexts, IsToken, Keys, Weights


class SelfAttention(nn.Module):
    """C_i = Σ_j a_ij v_j with q_i, k_j and v_j from one sequence x (Vaswani et al. 2017, sec. 3.2.3).

        contexts, weights = SelfAttention(MultiHead(attention, heads, size, size), causal=True)(vectors)

    `attention` is any context that reads with a query and carries nothing from step to step. With `causal`, C_i depends
    on x_1, ..., x_i only, and `step` appends to a cache of keys and values. ValueError: the attention's queries and
    keys differ in size or have none, it has a history, or it cannot append to a source and `causal` is true.
    """

    def __init__(self, attention: Context, causal: bool = False) -> None:
        super().__init__()
        need_instance(self, Context, attention=attention)
        name = type(attention).__name__
        if not attention.reads_query:
            raise ValueError(f"SelfAttention needs a context that reads with a query, got {name}")
        query_size, key_size = (getattr(attention, size, None) for size in ("query_size", "key_size"))
        if query_size is None or key_size is None:
            raise ValueError(
                f"SelfAttention needs the sizes of queries and keys, but {name} has none; set query_size and key_size"
            )
        if query_size != key_size:
            raise ValueError(
                f"SelfAttention has queries and keys from one sequence, but {name} has query_size {query_size} and "
                f"key_size {key_size}"
            )
        if attention.needs_history:
            raise ValueError(
                f"SelfAttention reads all positions at once, but a part of {name} depends on earlier steps (coverage, "
                f"location-aware and monotonic attention do); choose another scorer, normalizer or window"
            )
        if causal:
            one = next(attention.parameters(), torch.empty(0)).new_zeros(1, 1, key_size)
            attention.extend(attention.prepare(one), one)  # its error says which part cannot append to a source
        self.attention = attention
        self.causal = causal

    def forward(
        self, vectors: Keys, is_token: IsToken | None = None, *, need_weights: bool = True
    ) -> tuple[Contexts, Weights | None]:
        """Contexts (B, N, value_size) of vectors (B, N, size), and the weights (B, N, N) or None."""
        source = self.attention.prepare(vectors, is_token=is_token)
        contexts, weights = self.attention(vectors, source, causal=self.causal, need_weights=need_weights)
        return contexts, weights

    def step(self, vectors: Keys, cache: Any | None) -> tuple[Contexts, Any]:
        """Contexts of the next vectors (B, M, size), and the cache with their keys and values; None: none before."""
        attention = self.attention
        cache = attention.prepare(vectors) if cache is None else attention.extend(cache, vectors)
        # A single vector may read everything that is in the cache.
        contexts, _ = attention(vectors, cache, causal=vectors.shape[1] > 1, need_weights=False)
        return contexts, cache
