"""Word alignments from attention weights.

Forced decoding gives a matrix of weights with a row for each target token and a column for each source token, `</s>`
last on both sides. Row i was read while token i was being *predicted*, whatever the decoder; what its query knows of
the target by then is

    bahdanau       H_{i-1}    tokens up to i - 2
    luong          H_i        tokens up to i - 1, with or without input feeding
    conditional    H'_i       tokens up to i - 1

so no row has seen its own token. `word_rows` says which row is a target word's; then pieces are merged into words, and
weights become links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.evaluation.pharaoh import Link

Row = Literal["predicted", "read"]


def word_rows(weights: ArrayLike, row: Row = "predicted") -> NDArray[np.float64]:
    """The rows of the target's words, `</s>` cut off on both sides: (T - 1, S - 1) of (T, S).

    Token i has row i, read while the token was being predicted, or with `read` row i + 1: that of the step that takes
    the token as its input (Shift-Att of Chen et al. 2020). What a row read of `</s>` is missing from its sum.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    of_words = matrix[:-1] if row == "predicted" else matrix[1:]
    return of_words[:, :-1]


def merge_pieces(weights: ArrayLike, source_words: Sequence[int], target_words: Sequence[int]) -> NDArray[np.float64]:
    """Weights between words from weights between pieces: the sum over source, the mean over target pieces.

    So a word's row is a distribution where its pieces' rows are. `source_words[j]` is the word, counted from
    0, that source piece j came from, `target_words[i]` likewise; the result is (target words, source words).
    A word that no piece came from has a row or column of zeros. ValueError: lists that do not fit the matrix.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.shape != (len(target_words), len(source_words)):
        raise ValueError(
            f"weights of shape {matrix.shape} need the words of as many target and source pieces, got "
            f"{len(target_words)} and {len(source_words)}; cut </s> off the weights first"
        )
    of_source, of_target = _membership(source_words), _membership(target_words)
    target_pieces = np.maximum(of_target.sum(axis=0), 1)[:, None]  # at least 1: no division by zero
    merged: NDArray[np.float64] = of_target.T @ matrix @ of_source / target_pieces
    return merged


def _membership(words: Sequence[int]) -> NDArray[np.float64]:
    """(pieces, words): 1 where the piece came from the word, else 0."""
    return np.eye(max(words, default=-1) + 1)[np.asarray(words, dtype=np.intp)]


def argmax_links(weights: ArrayLike) -> frozenset[Link]:
    """Link each target word to the source word it read most, the first of equals: at most one link a row.

    `weights` is (target words, source words). A row that read nothing, all zeros, gives no link.
    """
    rows = enumerate(np.asarray(weights, dtype=np.float64))
    return frozenset((int(row.argmax()), target) for target, row in rows if row.sum() > 0)


def threshold_links(weights: ArrayLike, threshold: float) -> frozenset[Link]:
    """Link every two words with a weight of at least `threshold`; a weight of 0 never links. Any number a row."""
    matrix = np.asarray(weights, dtype=np.float64)
    linked = (matrix >= threshold) & (matrix > 0)
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked))
