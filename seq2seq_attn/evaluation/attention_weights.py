"""Measures of attention weights: word alignments, entropy, and rank correlation with other measures of importance.

Forced decoding gives a matrix of weights with a row for each target token and a column for each source token, `</s>`
last on both sides. Row i holds the weights used while token i was being *predicted*, in every decoder. What the query
knows of the target at that step is

    bahdanau       H_{i-1}    tokens up to i - 2
    luong          H_i        tokens up to i - 1, with or without input feeding
    conditional    H'_i       tokens up to i - 1
    transformer    H_i        tokens up to i - 1, in every layer

so no row depends on its own token. `CrossAttention.words` selects the row of each target word and merges subword pieces
into words; then weights become links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Agreement, Gold, GoldCorpus, Link, Links, count_links
from seq2seq_attn.options import AlignmentRow

Place = tuple[int | None, int | None]  # layer and head, counted from 0; None: the mean over them

_Same = TypeVar("_Same", bound="CrossAttention")


class Words(NamedTuple):
    """The words of a text, and the word that each label belongs to."""

    texts: tuple[str, ...]
    of: tuple[int | None, ...]  # one per label, counted from 0; None: of no word, such as `</s>`


@dataclass(frozen=True, eq=False)
class CrossAttention:
    """The attention weights of a model between the labels of a source and those of a target, by layer and head.

    Labels are tokens, words or whatever the model reads. Links, entropies, error rates and pictures are made from this
    record, whichever model has the weights.
    """

    source: tuple[str, ...]  # S labels
    target: tuple[str, ...]  # T labels
    layers: tuple[NDArray[Any], ...] = field(repr=False)  # (H, T, S) of each layer: row i predicted target label i
    source_words: Words | None = field(default=None, repr=False)  # None: each label is a word
    target_words: Words | None = field(default=None, repr=False)
    gold: Gold | None = field(default=None, repr=False)  # links between words

    @property
    def weights(self) -> NDArray[Any]:
        """The mean over the heads of a layer, then over layers (T, S)."""
        return np.mean([layer.mean(axis=0) for layer in self.layers], axis=0)  # type: ignore[no-any-return]

    @property
    def links(self) -> Links:
        """Each target label with the source label of the highest weight; no link where all weights are 0."""
        return argmax_links(self.weights)

    @property
    def gold_cells(self) -> list[tuple[int, int]]:
        """(source label, target label) of the labels of words that a sure gold link connects."""
        sure = self.gold.sure if self.gold else ()
        (_, columns), (_, rows) = self._kept_labels()
        return [(column, row) for column, i in columns for row, j in rows if (i, j) in sure]

    def _kept_labels(self) -> list[tuple[tuple[str, ...], list[tuple[int, int]]]]:
        """Of either side: its words, and (label, word) of each label that belongs to a word."""
        found = []
        for words, labels in ((self.source_words, self.source), (self.target_words, self.target)):
            texts, of = words or Words(labels, tuple(range(len(labels))))
            found.append((texts, [(place, word) for place, word in enumerate(of) if word is not None]))
        return found

    def head(self: _Same, layer: int, head: int | None = None) -> _Same:
        """The weights of one head of one layer alone, or the mean over the heads of a layer.

        Args:
            layer: Counted from 0.
            head: Counted from 0.

        Raises:
            UserError: There is no such layer or head.
        """
        count = len(self.layers)
        if not 0 <= layer < count:
            raise UserError(
                f"layer {layer}: this model reads the source in {count} layers, numbered from 0 to {count - 1}"
            )
        heads = self.layers[layer]
        if head is None:
            return replace(self, layers=(heads.mean(axis=0, keepdims=True),))
        if not 0 <= head < len(heads):
            raise UserError(f"head {head}: layer {layer} has {len(heads)} heads, numbered from 0 to {len(heads) - 1}")
        return replace(self, layers=(heads[head : head + 1],))

    def matrices(self) -> Iterator[tuple[Place, NDArray[Any]]]:
        """The weights (T, S) of each layer's heads, then their mean; last, the mean over layers."""
        for layer, heads in enumerate(self.layers):
            yield from (((layer, head), weights) for head, weights in enumerate(heads))
            yield (layer, None), heads.mean(axis=0)
        yield (None, None), self.weights

    def words(self: _Same, row: AlignmentRow = "predicted") -> _Same:
        """The weights between words: summed over the pieces of a source word, averaged over those of a target word.

        Rows and columns of labels that belong to no word, such as `</s>`, are left out, and rows are not renormalized.

        Args:
            row: Label i has row i, used while the label was being predicted, or with `read` row i + 1: that of the
                step that takes the label as its input (Shift-Att of Chen et al. 2020).

        Raises:
            UserError: With `read`, the last row belongs to a word, so that its next one is missing.
        """
        (sources, columns), (targets, rows) = self._kept_labels()
        if row == "read" and rows and rows[-1][0] + 1 == len(self.target):
            raise UserError(
                f"row='read': {self.target[-1]!r} is the last target label, so no step reads it; leave out row, or "
                f"give the weights with those of the step that predicts </s>"
            )
        shift = int(row == "read")
        of_source, of_target = [word for _, word in columns], [word for _, word in rows]
        row_places, column_places = [place + shift for place, _ in rows], [place for place, _ in columns]
        count = len(targets), len(sources)
        merged = (
            merge_pieces(layer[:, row_places][..., column_places], of_source, of_target, count) for layer in self.layers
        )
        return replace(self, source=sources, target=targets, layers=tuple(merged), source_words=None, target_words=None)


def merge_pieces(
    weights: ArrayLike, source_words: Sequence[int], target_words: Sequence[int], words: tuple[int, int] = (0, 0)
) -> NDArray[np.float64]:
    """Weights between words from weights (..., T, S) between pieces: summed over the source, averaged over the target.

    So the row of a word is a distribution if those of its pieces are. `source_words[j]` is the word, counted from
    0, that source piece j belongs to, `target_words[i]` likewise; the result is (target words, source words).
    A word without pieces has a row or column of zeros; `words` are the numbers of target and source words, which matter
    if the last ones have no pieces. ValueError: lists that do not match the matrix.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.shape[-2:] != (len(target_words), len(source_words)):
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


def links_of(weights: ArrayLike, threshold: float | None = None) -> Links:
    """`argmax_links` or, with a threshold, `threshold_links`."""
    return argmax_links(weights) if threshold is None else threshold_links(weights, threshold)


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


class HeadMeasures(NamedTuple):
    """How sharply a head attends, and how well it agrees with gold links; or a mean of heads."""

    layer: int | None  # counted from 0; None: the mean over the layers
    head: int | None  # counted from 0; None: the mean over the heads
    entropy: float | None  # mean over the target words, in bits, as `attention_entropy`
    agreement: Agreement | None  # None without gold links
    correlation: float | None = None  # with another measure of importance: mean of Kendall's τ-b over target words


def measure_heads(
    pairs: Iterable[CrossAttention | None],
    gold: GoldCorpus | None = None,
    importance: Sequence[NDArray[Any]] | None = None,
    *,
    threshold: float | None = None,
) -> list[HeadMeasures]:
    """Measures every layer and head: for each layer its heads, then their mean; last, the mean over layers.

    Args:
        pairs: The weights between words; None for a pair without weights, which misses its gold links.
        gold: Gold links, to measure agreement.
        importance: Another measure of how important each source word is for each target word (T, S) of each pair, to
            rank them by.
        threshold: As in `links_of`.

    Raises:
        UserError: No pair has weights.
    """
    found: dict[Place, _Sums] = {}
    without_weights = np.zeros(4, dtype=np.int64)
    for number, pair in enumerate(pairs):
        known = None if gold is None else (gold.sure[number], gold.possible[number])
        if pair is None:
            without_weights += 0 if known is None else np.array(count_links(frozenset(), *known))
            continue
        for place, weights in pair.matrices():
            sums = found.setdefault(place, _Sums())
            sums.entropies.append(_entropies(np.asarray(weights, dtype=np.float64)))
            if known is not None:
                sums.links += np.array(count_links(links_of(weights, threshold), *known))
            if importance is not None:
                sums.ranked.extend(zip(weights, importance[number], strict=True))
    if not found:
        raise UserError("every pair has a blank side; heads are compared on pairs with text on both sides")
    return [
        HeadMeasures(
            *place,
            float(each.mean()) if len(each := np.concatenate(sums.entropies)) else None,
            None if gold is None else Agreement(*(sums.links + without_weights).tolist()),
            None if importance is None else rank_correlation(sums.ranked).mean,
        )
        for place, sums in found.items()
    ]


@dataclass
class _Sums:
    """What is known of a head so far."""

    entropies: list[NDArray[np.float64]] = field(default_factory=list)
    links: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    ranked: list[tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=list)


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
