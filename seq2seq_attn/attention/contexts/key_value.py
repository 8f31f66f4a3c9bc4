"""Separate keys and values: one half of a state is compared with the query, and the other half is read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.checks import need_instance, refuse, unfit
from seq2seq_attn.attention.context import Context
from seq2seq_attn.attention.contexts.chunkwise import ChunkwiseAttention
from seq2seq_attn.attention.contexts.multi_head import MultiHead
from seq2seq_attn.attention.shapes import IsToken, Keys, Query, Values, Weights
from seq2seq_attn.attention.source import History

VALUES = "it takes them from the keys"


class KeyValueAttention(Context):
    """[k_j; v_j] = h_j: half of a state is the key, the other half the value (Daniluk et al. 2017).

    Args:
        attention: What reads; it has the sizes of the halves.
        directions: 2: the states are [forward; backward], and each direction gives half of its numbers to the key and
            half to the value.

    Raises:
        ValueError: Another number of directions; in `prepare`, states that cannot be halved, or values.
    """

    reads_query = True

    def __init__(self, attention: Attention | ChunkwiseAttention | MultiHead, directions: int = 1) -> None:
        super().__init__()
        need_instance(self, Context, attention=attention)
        if directions not in (1, 2):
            raise unfit(self, "directions = 1 or 2", directions)
        self.attention = attention
        self.directions = directions
        self.query_size, self.key_size = attention.query_size, 2 * attention.key_size
        self.value_size = attention.value_size
        self.needs_history = attention.needs_history
        self.heads = attention.heads

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        refuse(self, VALUES, values=values)
        return self.attention.prepare(*self.halves(keys), is_token)

    def reader(self) -> Context:
        return self.attention.reader()

    def start(self, source: Any) -> History:
        return self.attention.start(source)

    def condition(self, history: History, log_likelihood: Weights) -> History:
        return self.attention.condition(history, log_likelihood)

    def extend(self, source: Any, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> Any:
        refuse(self, VALUES, values=values)
        return self.attention.extend(source, *self.halves(keys), is_token)

    def forward(self, query: Query, source: Any, history: History | None = None, **options: Any) -> Any:
        return self.attention(query, source, history, **options)

    def halves(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values, each (B, S, H / 2), of states (B, S, H)."""
        size = states.shape[-1]
        if size % (2 * self.directions):
            raise unfit(self, f"states of a size divisible by {2 * self.directions}, to halve each direction", size)
        keys, values = torch.unflatten(states, -1, (self.directions, 2, -1)).unbind(-2)
        # Of one direction they would be views of the states, whose strides a graph that is exported depends on.
        return keys.flatten(-2).contiguous(), values.flatten(-2).contiguous()
