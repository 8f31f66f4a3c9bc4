"""Chunkwise: monotonic attention chooses a position, and soft attention reads the last few words up to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention.attention import Attention
from seq2seq_attn.attention.checks import check_extension, check_query, need_instance, need_positive, refuse, unfit
from seq2seq_attn.attention.context import Context, one_by_one
from seq2seq_attn.attention.normalizer import masked
from seq2seq_attn.attention.scorer import Scorer
from seq2seq_attn.attention.shapes import Bias, Contexts, IsToken, Keys, MayRead, Query, Scores, Values, Weights
from seq2seq_attn.attention.source import AttentionSource, History, restricted


class ChunkwiseSource(NamedTuple):
    """The prepared sources of both scorers: to find the position, and to read the chunk that ends there."""

    place: AttentionSource
    chunk: Tensor  # (B, S, ...), computed from the keys by the scorer of chunks

    @property
    def sentences(self) -> int:
        """B."""
        return self.place.sentences

    @property
    def values(self) -> Tensor:
        """v_j (B, S, value_size)."""
        return self.place.values

    def select(self, rows: Tensor) -> ChunkwiseSource:
        """Returns the record with these sentences (M,), as `PreparedSource.select`."""
        return ChunkwiseSource(self.place.select(rows), self.chunk.index_select(0, rows))

    def for_query(self, step: int) -> ChunkwiseSource:
        """Returns the part for query `step`, as `AttentionSource.for_query`."""
        return self._replace(place=self.place.for_query(step))


class ChunkwiseAttention(Context):
    """β_ij = Σ_k a_ik exp(u_ij) / Σ_l exp(u_il), k from j to j + w - 1, l from k - w + 1 to k: MoChA.

    (Chiu and Raffel 2018, eq. 17.) Softmax distributes the weight of each position over it and the w - 1 positions
    before it. With `Monotonic` in evaluation mode, all weights therefore lie in one chunk, or are 0 if the walk has run
    past the last token. The call takes no bias: it belongs in the scorers.

    Args:
        attention: Its weights are a; monotonic in the paper. Its dropout is applied to β.
        scorer: Its scores are u.
        chunk_size: w, in positions.

    Raises:
        ValueError: The two scorers differ in their sizes.
    """

    reads_query = True

    def __init__(self, attention: Attention, scorer: Scorer, chunk_size: int = 4) -> None:
        super().__init__()
        need_instance(self, Attention, attention=attention)
        need_instance(self, Scorer, scorer=scorer)
        need_positive(self, chunk_size=chunk_size)
        sizes = (attention.query_size, attention.key_size), (scorer.query_size, scorer.key_size)
        if sizes[0] != sizes[1]:
            raise unfit(self, "scorers of the same query_size and key_size", sizes)
        self.attention = attention
        self.scorer = scorer
        self.chunk_size = chunk_size
        self.query_size, self.key_size = sizes[0]
        self.value_size = attention.value_size
        self.needs_history = attention.needs_history or scorer.needs_history

    def prepare(self, keys: Keys, values: Values | None = None, is_token: IsToken | None = None) -> ChunkwiseSource:
        return ChunkwiseSource(self.attention.prepare(keys, values, is_token), self.scorer.prepare(keys))

    def start(self, source: ChunkwiseSource) -> History:
        return self.attention.start(source.place), self.scorer.start(source.chunk)

    def extend(
        self, source: ChunkwiseSource, keys: Keys, values: Values | None = None, is_token: IsToken | None = None
    ) -> ChunkwiseSource:
        check_extension(self, source.sentences, keys, is_token, self.scorer)
        place = self.attention.extend(source.place, keys, values, is_token)
        return ChunkwiseSource(place, torch.cat((source.chunk, self.scorer.prepare(keys)), dim=1))

    def forward(
        self,
        query: Query,
        source: ChunkwiseSource,
        history: History | None = None,
        *,
        may_read: MayRead | None = None,
        causal: bool = False,
        bias: Bias | None = None,
        need_weights: bool = True,
    ) -> Any:
        check_query(self, query, source, self.query_size)
        refuse(self, "it has two scorers, and a bias belongs in one of them", bias=bias)
        source = source._replace(place=restricted(self, query, source.place, history, may_read, causal, bias))
        if history is None:
            contexts, weights = one_by_one(self._step, query, source, self.start(source))
            return contexts, weights if need_weights else None
        contexts, weights, history = self._step(query, source, history)
        return contexts, weights if need_weights else None, history

    def _step(self, query: Query, source: ChunkwiseSource, history: History) -> tuple[Contexts, Weights, History]:
        place_history, chunk_history = history
        view = self.attention.view(query, source.place, place_history)
        place, place_history = self.attention.weigh(query, source.place, place_history, view)
        scores = masked(self.scorer.after(chunk_history, query, source.chunk), view.is_open)
        weights = _spread(place, scores, self.chunk_size).to(place.dtype)
        chunk_history = self.scorer.advance(chunk_history, query, source.chunk, weights)
        contexts, weights = self.attention.read(weights, source.place.values)
        return contexts, weights, (place_history, chunk_history)


def _spread(place: Weights, scores: Scores, chunk_size: int) -> Weights:
    """The weight of each position, distributed by softmax over the chunk of positions that ends there."""
    before, positions = chunk_size - 1, scores.shape[-1]
    padded = F.pad(scores, (before, 0), value=-torch.inf)
    # Place c of the chunk that ends at k is position k - before + c.
    chunks = torch.stack([padded[..., c : c + positions] for c in range(chunk_size)])  # (chunk_size, B, K, S)
    # The softmax of a chunk of padding is undefined, but such a chunk has no weight to distribute.
    is_open = chunks > -torch.inf
    shares = torch.softmax(torch.where(is_open.any(dim=0), chunks, 0.0), dim=0) * is_open
    given = [F.pad(share, (c, before - c)) for c, share in enumerate(place * shares)]
    return torch.stack(given).sum(dim=0)[..., before:]
