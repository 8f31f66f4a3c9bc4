"""Sufficient statistics of BLEU and chrF: sacrebleu's n-gram counts, per sentence, to be summed over any subset.

Tests that compute BLEU thousands of times count once and sum the counts for each resample or group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu import BLEU, CHRF

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import bleu_metric, require_pairs

Runs = Sequence[Sequence[str]]  # one list of hypotheses per training seed; a single system is [hypotheses]


@dataclass(frozen=True)
class BleuCounts:
    """The counts of a system's runs on a test set."""

    counts: NDArray[np.int64]  # (runs, sentences, 10); their sum over sentences determines the BLEU of a run
    metric: BLEU

    @classmethod
    def of(cls, runs: Runs, references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> BleuCounts:
        """Count. UserError: no run, or the errors of `corpus_scores.bleu` in one of them."""
        if not runs:
            raise UserError("nothing to score: a system without runs; give the hypotheses of at least one")
        metric = bleu_metric(tokenize, lowercase)
        for hypotheses in runs:
            require_pairs(hypotheses, references)
        counts = [metric._extract_corpus_statistics(hypotheses, [references]) for hypotheses in runs]
        return cls(np.array(counts, dtype=np.int64), metric)

    @property
    def runs(self) -> int:
        return self.counts.shape[0]

    @property
    def sentences(self) -> int:
        return self.counts.shape[1]

    def select(self, rows: Sequence[int]) -> BleuCounts:
        """The counts of these sentences only."""
        return BleuCounts(self.counts[:, rows], self.metric)

    def bleu(self) -> NDArray[np.float64]:
        """(runs,): BLEU of each run on the test set as it is."""
        return self.bleu_of(self.counts.sum(axis=1).tolist())

    def bleu_of(self, sums: Iterable[Any]) -> NDArray[np.float64]:
        """BLEU of each row of summed counts; a row is a list of int or, as sacrebleu resamples, an array of float32."""
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums], dtype=np.float64)

    def signature(self, **settings: Any) -> str:
        """sacrebleu's signature with the settings of a test appended: `seed`, `bs` resamples, `ar` trials."""
        signature = self.metric.get_signature()
        for key, value in settings.items():
            signature.update(key, value)
        return str(signature)


@dataclass(frozen=True)
class ChrfCounts:
    """chrF's counts of character n-grams of a system's runs on a test set."""

    counts: NDArray[np.int64]  # (runs, sentences, 18); their sum over sentences determines the chrF2 of a run
    metric: CHRF

    @classmethod
    def of(cls, runs: Runs, references: Sequence[str]) -> ChrfCounts:
        """Count. Errors as for `BleuCounts.of`."""
        if not runs:
            raise UserError("nothing to score: a system without runs; give the hypotheses of at least one")
        for hypotheses in runs:
            require_pairs(hypotheses, references)
        metric = _chrf_against(tuple(references))
        counts = [metric._extract_corpus_statistics(hypotheses, None) for hypotheses in runs]
        return cls(np.array(counts, dtype=np.int64), metric)

    def select(self, rows: Sequence[int]) -> ChrfCounts:
        """The counts of these sentences only."""
        return ChrfCounts(self.counts[:, rows], self.metric)

    def chrf(self) -> NDArray[np.float64]:
        """(runs,): chrF2 of each run."""
        sums = self.counts.sum(axis=1).tolist()
        return np.array([self.metric._compute_score_from_stats(run).score for run in sums], dtype=np.float64)


@lru_cache(maxsize=1)  # the systems of a comparison share their references, whose n-grams are counted once
def _chrf_against(references: tuple[str, ...]) -> CHRF:
    return CHRF(references=[references])
