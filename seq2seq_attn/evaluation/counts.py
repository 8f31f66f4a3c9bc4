"""Sufficient statistics of BLEU and chrF: sacrebleu's n-gram counts, per sentence, to be summed over any subset.

Tests that compute BLEU thousands of times count once and sum the counts for each resample or group.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sacrebleu import CHRF
from sacrebleu.metrics.base import Metric

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import References, bleu_metric, for_sacrebleu, require_pairs

Runs = Sequence[Sequence[str]]  # one list of hypotheses per training seed; a single system is [hypotheses]


Own = TypeVar("Own", bound="CorpusCounts")


@dataclass(frozen=True)
class CorpusCounts(ABC):
    """The counts of a system's runs on a test set; their sum over sentences determines the score of a run."""

    counts: NDArray[np.int64]  # (runs, sentences, 10 for BLEU and 18 for chrF)
    metric: Metric
    source_of: NDArray[np.int64] | None = None  # (sentences,): the number of its source; None if no two share one

    @property
    def runs(self) -> int:
        return self.counts.shape[0]

    @property
    def sources(self) -> int:
        """The number of different sources, from which tests draw."""
        return self.by_source().shape[1]

    def select(self: Own, rows: Sequence[int]) -> Own:
        """The counts of these sentences only."""
        sources = None if self.source_of is None else self.source_of[rows]
        return replace(self, counts=self.counts[:, rows], source_of=sources)

    def by_source(self) -> NDArray[np.int64]:
        """(runs, sources, counts): summed over the sentences with the same source, which no test may draw apart."""
        return sum_by_source(self.counts, self.source_of)

    def scores(self) -> NDArray[np.float64]:
        """(runs,): the score of each run on the test set as it is."""
        return self.scores_of(self.counts.sum(axis=1))

    @abstractmethod
    def scores_of(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        """(rows,): the score of each row of summed counts, of int or, as sacrebleu resamples, of float32."""

    def signature(self, **settings: Any) -> str:
        """sacrebleu's signature with the settings of a test appended: `seed`, `bs` resamples, `ar` trials.

        `sources` is their number, if some sentences share theirs.
        """
        signature = self.metric.get_signature()
        if self.source_of is not None:
            settings["sources"] = self.sources
        for key, value in settings.items():
            signature.update(key, value)
        return str(signature)


def number_sources(sources: Sequence[str]) -> NDArray[np.int64] | None:
    """(sentences,): the number of each sentence's source, in order of first appearance; None if no two share one."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(source, len(numbers)) for source in sources]
    return np.array(found) if len(numbers) < len(found) else None


def sum_by_source(counts: NDArray[np.int64], source_of: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """(runs, sources, counts) from counts of sentences, (runs, sentences, counts); sources stay in order."""
    if source_of is None:
        return counts
    order = np.argsort(source_of, kind="stable")
    _, starts = np.unique(source_of[order], return_index=True)
    return np.add.reduceat(counts[:, order], starts, axis=1)


def bleu_of_counts(rows: NDArray[Any]) -> NDArray[np.float64]:
    """BLEU (rows,) from both lengths and the numbers of n-grams in both and of hypotheses: (rows, 2 + 4 + 4).

    As sacrebleu computes it, for all rows at once and to the last digit: orders without a match are smoothed by halving
    (method "exp"), and a row without any match, or without an n-gram of some order, scores 0.
    """
    rows = rows.astype((100.0 * rows.dtype.type(1)).dtype)  # sacrebleu's precision, which depends on NumPy's release
    matches, ours = rows[:, 2:6], rows[:, 6:]
    known = (ours > 0).all(axis=1) & (matches > 0).any(axis=1)
    matches, ours = matches[known], ours[known]
    halvings = (matches == 0).cumsum(axis=1).astype(rows.dtype)
    precisions = np.where(matches > 0, 100.0 * matches / ours, 100.0 / (2.0**halvings * ours))
    lengths = rows[known, :2].astype(np.float64)
    brevity = np.minimum(1 - lengths[:, 1] / lengths[:, 0], 0)
    scores = np.zeros(len(rows))
    scores[known] = [  # in Python, as NumPy's logarithms, exponentials and sums may differ in the last digit
        math.exp(brief) * math.exp(sum(map(math.log, row)) / 4)
        for brief, row in zip(brevity.tolist(), precisions.tolist(), strict=True)
    ]
    return scores


class BleuCounts(CorpusCounts):
    @classmethod
    def of(
        cls,
        runs: Runs,
        references: References,
        tokenize: str = "13a",
        lowercase: bool = False,
        sources: Sequence[str] = (),
    ) -> BleuCounts:
        """Count; tests draw sentences together that have the same source, if sources are given.

        UserError: no run, or the errors of `corpus_scores.bleu` in one of them.
        """
        _require_runs(runs, references)
        metric = bleu_metric(tokenize, lowercase)
        lists = for_sacrebleu(references)
        counts = [metric._extract_corpus_statistics(hypotheses, lists) for hypotheses in runs]
        return cls(np.array(counts, dtype=np.int64), metric, number_sources(sources))

    def scores_of(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        return bleu_of_counts(sums)


def chrf_of_counts(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], matches: NDArray[np.float64]
) -> NDArray[np.float64]:
    """chrF2 (...) from the numbers of n-grams of hypotheses, of references and in both, each (..., orders).

    As sacrebleu computes it, for all at once: F_beta of the mean precision and recall over the orders. Orders without
    any n-gram, in the hypotheses or in the references, do not count.
    """
    ours, theirs, matches = np.broadcast_arrays(ours, theirs, matches)
    counted = (ours > 0) & (theirs > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision, recall = (
        np.divide(matches, whole, out=np.zeros(matches.shape), where=counted).sum(axis=-1) / orders
        for whole in (ours, theirs)
    )
    weight = CHRF.BETA**2
    denominator = weight * precision + recall
    score = np.divide((1 + weight) * precision * recall, denominator, out=np.zeros(recall.shape), where=recall > 0)
    return np.asarray(100 * score)


class ChrfCounts(CorpusCounts):
    """Of chrF2."""

    @classmethod
    def of(cls, runs: Runs, references: References, lowercase: bool = False, sources: Sequence[str] = ()) -> ChrfCounts:
        """Count. Sources and errors as for `BleuCounts.of`."""
        _require_runs(runs, references)
        metric = _chrf_against(tuple(map(tuple, for_sacrebleu(references))), lowercase)
        counts = [metric._extract_corpus_statistics(hypotheses, None) for hypotheses in runs]
        return cls(np.array(counts, dtype=np.int64), metric, number_sources(sources))

    def scores_of(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        rows = sums.astype(np.float64)
        return chrf_of_counts(rows[:, 0::3], rows[:, 1::3], rows[:, 2::3])


def _require_runs(runs: Runs, references: References) -> None:
    if not runs:
        raise UserError("nothing to score: a system without runs; give the hypotheses of at least one")
    for hypotheses in runs:
        require_pairs(hypotheses, references)


@lru_cache(maxsize=1)  # the systems of a comparison share their references, whose n-grams are counted once
def _chrf_against(references: tuple[Any, ...], lowercase: bool) -> CHRF:
    return CHRF(lowercase=lowercase, references=references)
