"""Measures of attention weights: word alignments, entropy, and rank correlation with other measures of importance.

Forced decoding gives a matrix of weights with a row for each target token and a column for each source token, `</s>`
last on both sides. Row i holds the weights used while token i was being *predicted*, in every decoder. What the query
knows of the target at that step is

    bahdanau       H_{i-1}    tokens up to i - 2
    luong          H_i        tokens up to i - 1, with or without input feeding
    conditional    H'_i       tokens up to i - 1
    transformer    H_i        tokens up to i - 1, in every layer

so no row depends on its own token. `word_rows` selects the row of each target word; then subword pieces are merged into
words, and weights become links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.evaluation.alignment import Link
from seq2seq_attn.options import AlignmentRow


def word_rows(weights: ArrayLike, row: AlignmentRow = "predicted", columns: int = -1) -> NDArray[np.float64]:
    """The rows of the target's tokens without `</s>` on both sides: (T, S) to (T - 1, S - 1).

    Token i has row i, used while the token was being predicted, or with `read` row i + 1: that of the step that takes
    the token as its input (Shift-Att of Chen et al. 2020). Rows are not renormalized after the column of `</s>` is cut.
    `columns` is their number in a source that is not text and has no `</s>`.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    rows = matrix[:-1] if row == "predicted" else matrix[1:]
    return rows[:, :columns]


def merge_pieces(
    weights: ArrayLike, source_words: Sequence[int], target_words: Sequence[int], words: tuple[int, int] = (0, 0)
) -> NDArray[np.float64]:
    """Weights between words from weights between pieces: summed over source pieces, averaged over target pieces.

    So the row of a word is a distribution if those of its pieces are. `source_words[j]` is the word, counted from
    0, that source piece j belongs to, `target_words[i]` likewise; the result is (target words, source words).
    A word without pieces has a row or column of zeros; `words` are the numbers of target and source words, which matter
    if the last ones have no pieces. ValueError: lists that do not match the matrix.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.shape != (len(target_words), len(source_words)):
        raise ValueError(
            f"weights of shape {matrix.shape} need one word index per target and source piece, got "
            f"{len(target_words)} and {len(source_words)}; cut </s> off the weights first"
        )
    target, source = (_membership(*side) for side in zip((target_words, source_words), words, strict=True))
    target_pieces = np.maximum(target.sum(axis=0), 1)[:, None]  # at least 1: no division by zero
    merged: NDArray[np.float64] = target.T @ matrix @ source / target_pieces
    return merged


def _membership(words: Sequence[int], count: int) -> NDArray[np.float64]:
    """(pieces, words), for `count` words or as many as there are with pieces: 1 where the piece belongs to the word."""
    return np.eye(max(count, max(words, default=-1) + 1))[np.asarray(words, dtype=np.intp)]


def argmax_links(weights: ArrayLike) -> frozenset[Link]:
    """Link each target word to the source word with the largest weight, the first of equals.

    `weights` is (target words, source words). A row of zeros gives no link.
    """
    rows = enumerate(np.asarray(weights, dtype=np.float64))
    return frozenset((int(row.argmax()), target) for target, row in rows if row.sum() > 0)


def threshold_links(weights: ArrayLike, threshold: float) -> frozenset[Link]:
    """Link all pairs of words with a weight of at least `threshold`; a weight of 0 never links."""
    matrix = np.asarray(weights, dtype=np.float64)
    linked = (matrix >= threshold) & (matrix > 0)
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked))


def attention_entropy(matrices: Iterable[NDArray[np.float64]]) -> float | None:
    """Mean entropy in bits, -Σ_j a_j log2 a_j, of the rows of all (T, S) matrices of weights.

    0 if each row attends to a single position, log2(S) if its weights are uniform. Rows are divided by their sum, as
    not all normalizers give a distribution. Rows of zeros do not count; None if there is no other.
    """
    entropies = [_entropies(np.asarray(weights, dtype=np.float64)) for weights in matrices]
    found = np.concatenate([np.empty(0), *entropies])
    return float(found.mean()) if len(found) else None


def _entropies(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = weights[weights.sum(axis=1) > 0]
    distributions = rows / rows.sum(axis=1, keepdims=True)
    logarithms = np.log2(distributions, out=np.zeros_like(distributions), where=distributions > 0)
    entropies: NDArray[np.float64] = -(distributions * logarithms).sum(axis=1)
    return entropies


class RankCorrelation(NamedTuple):
    """Kendall's τ-b over many pairs of rows: 1 for the same order, 0 for unrelated, -1 for the reverse order."""

    mean: float | None  # None if no row counts
    deviation: float | None  # standard deviation of the rows' τ
    rows: int  # that count: a row whose numbers are all equal has no order


def rank_correlation(pairs: Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> RankCorrelation:
    """τ-b, which allows for ties (Kendall 1945), of each pair of rows of equal length; their mean and deviation."""
    from scipy.stats import kendalltau  # slow to import, and links and entropies do without

    found = [float(kendalltau(one, other).statistic) for one, other in pairs if np.ptp(one) > 0 and np.ptp(other) > 0]
    if not found:
        return RankCorrelation(None, None, 0)
    return RankCorrelation(float(np.mean(found)), float(np.std(found)), len(found))
