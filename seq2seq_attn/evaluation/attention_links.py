"""Word alignments from attention weights.

A matrix of weights has a row for each target token and a column for each source token. Row i was read while
token i was being *predicted*, whatever the decoder: its query is the state before (Bahdanau) or after (Luong)
the update on token i - 1, and has never seen token i. So the links of row i are those of target token i.
`</s>` is no word: cut its row and column off first, `weights[:-1, :-1]`; what a row read of it is then
missing from the row's sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.evaluation.pharaoh import Link


def hard_links(weights: ArrayLike, threshold: float = 0.0, minimum_mass: float = 0.0) -> frozenset[Link]:
    """Link each target word to the source word it read most, the first of equals: at most one link a row.

    `weights` is (target words, source words). A row gives no link where its largest weight is below
    `threshold`, or its sum not above `minimum_mass`; so a row that read nothing, all zeros, never gives one.
    """
    rows = enumerate(np.asarray(weights, dtype=np.float64))
    return frozenset(
        (int(row.argmax()), target) for target, row in rows if row.sum() > minimum_mass and row.max() >= threshold
    )


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
