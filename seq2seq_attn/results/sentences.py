"""The test sentences on which arms differ most (sentences.json)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import PositiveInt, TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT, load, save

SHOWN = 5  # sentences at each end of a comparison


@dataclass(frozen=True, config=STRICT)
class Translated:
    """What one arm, its first seed, made of a sentence."""

    text: str
    score: float


@dataclass(frozen=True, config=STRICT)
class Sentence:
    """A sentence pair of the test set and its translations by arm."""

    line: PositiveInt  # of the test set
    source: str
    reference: str
    translations: Mapping[str, Translated]

    def difference(self, arm: str, baseline: str) -> float:
        """By how much the arm is better here."""
        return self.translations[arm].score - self.translations[baseline].score


@dataclass(frozen=True, config=STRICT)
class Sentences:
    """For each comparison at least the `SHOWN` sentences that the arm gains most on, and those it loses most on."""

    metric: str  # of the scores
    signature: str
    sentences: tuple[Sentence, ...]

    def ranked(self, arm: str, baseline: str) -> list[Sentence]:
        """All of them, the greatest gain first; among equals what the arm translates well."""

        def rank(sentence: Sentence) -> tuple[float, float, int]:
            return -sentence.difference(arm, baseline), -sentence.translations[arm].score, sentence.line

        return sorted(self.sentences, key=rank)


def load_sentences(path: Path) -> Sentences:
    """UserError with the file and the key if they are malformed."""
    return load(_SENTENCES, path)


def save_sentences(sentences: Sentences, path: Path) -> None:
    """Write JSON, whole or not at all."""
    save(_SENTENCES, sentences, path)


_SENTENCES = TypeAdapter(Sentences)
