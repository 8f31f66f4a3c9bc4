"""BLEU by source length: the picture that shows what attention is for (Bahdanau et al., 2015, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import Score, bleu_metric, corpus_score, require_pairs


@dataclass(frozen=True)
class Band:
    """The lengths from `low` to `high`, both included; `high=None` is open above."""

    low: int
    high: int | None

    def __post_init__(self) -> None:
        if self.high is not None and self.high < self.low:
            raise UserError(f"no length is in the band {self}; write the smaller number first")

    def __contains__(self, length: int) -> bool:
        return self.low <= length and (self.high is None or length <= self.high)

    def __str__(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class BandScore:
    """The score of the sentences of one band, and how many they are."""

    band: Band
    sentences: int
    score: Score


DEFAULT_BANDS = (Band(1, 10), Band(11, 20), Band(21, 30), Band(31, 40), Band(41, 50), Band(51, None))


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    source_lengths: Sequence[int],
    bands: Sequence[Band] = DEFAULT_BANDS,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[BandScore]:
    """Corpus BLEU within each band: its n-grams are pooled, sentence scores are not averaged.

    `source_lengths` counts what the caller calls a word, e.g. `[len(line.split()) for line in source]`.
    A band without a sentence is left out, and so is a sentence outside all bands.
    Errors as in `metrics.bleu`.
    """
    require_pairs(hypotheses, references)
    if len(source_lengths) != len(hypotheses):
        raise UserError(
            f"{len(source_lengths)} source lengths but {len(hypotheses)} hypotheses; "
            "each hypothesis needs the length of its source"
        )
    metric = bleu_metric(tokenize, lowercase)
    scores = []
    for band in bands:
        rows = [row for row, length in enumerate(source_lengths) if length in band]
        if rows:
            score = corpus_score(metric, [hypotheses[row] for row in rows], [references[row] for row in rows])
            scores.append(BandScore(band, len(rows), score))
    return scores
