"""Word alignments of a trained model, by forced decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.analysis.token_attention import TokenAttention, of_forced
from seq2seq_attn.evaluation.attention_links import Row, argmax_links, merge_pieces, threshold_links, word_rows
from seq2seq_attn.evaluation.pharaoh import Links
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.corpus import Progress
from seq2seq_attn.search.forced import Forced
from seq2seq_attn.text.corpus import ParallelCorpus

CHUNK = 512  # pairs whose weights are held at once: sorted by length they fill their batches well


class WordAttention(NamedTuple):
    """Where a model looked while it predicted a given translation."""

    source: list[str]  # words, as the line has them
    target: list[str]
    weights: NDArray[np.float64]  # (target words, source words); `</s>` is cut off on both sides

    @property
    def links(self) -> Links:
        """Each target word with the source word that was read most; none where nothing was read."""
        return argmax_links(self.weights)


def attend(
    model: TrainedModel, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
) -> list[WordAttention | None]:
    """Attention between the whitespace-separated words of each pair; None for a pair with a blank side.

    Pieces of a word are put together by `merge_pieces`: summed over the source, averaged over the target.
    """
    forced = model.force(sources, targets, progress)
    return [
        pair and words_of(model, source, target, pair)
        for source, target, pair in zip(sources, targets, forced, strict=True)
    ]


def words_of(model: TrainedModel, source: str, target: str, forced: Forced, row: Row = "predicted") -> WordAttention:
    """The weights of one pair between its words; `row` as in `word_rows`."""
    weights: Any = forced.weights.numpy()
    words = merge_pieces(word_rows(weights, row), model.source.word_indices(source), model.target.word_indices(target))
    return WordAttention(source.split(), target.split(), words)


def align_by_attention(
    model: TrainedModel,
    pairs: ParallelCorpus,
    *,
    threshold: float | None = None,
    row: Row = "predicted",
    write: Callable[[TokenAttention], object] | None = None,
    progress: Progress | None = None,
) -> list[Links]:
    """The links of each pair, by argmax or by `threshold_links`; none for a pair with a blank side.

    `write` is given what was read in each pair, token by token, in the order of the pairs.
    """
    found: list[Links] = []
    for first in range(0, len(pairs), CHUNK):
        sources, targets = pairs.source[first : first + CHUNK], pairs.target[first : first + CHUNK]
        for source, target, forced in zip(sources, targets, model.force(sources, targets, progress), strict=True):
            if write is not None:
                write(of_forced(model, source, target, forced))
            if forced is None:
                found.append(frozenset())
                continue
            words = words_of(model, source, target, forced, row)
            found.append(words.links if threshold is None else threshold_links(words.weights, threshold))
    return found
