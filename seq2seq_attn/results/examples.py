"""Sentences of the test set: a few decoded by every arm (examples.json), and those on which arms differ most.

The latter are in sentences.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, NonEmpty, Words
from seq2seq_attn.results.attention import LinkPairs, Weight, require_words
from seq2seq_attn.results.records import RecordFile
from seq2seq_attn.results.seen import SeenSource

LogProbability = Annotated[float, Field(le=0.01)]  # rounding may bring it above 0

SHOWN = 5  # sentences with the largest, and with the smallest, gains per comparison in sentences.json


@dataclass(frozen=True, config=STRICT)
class DecodingStep:
    """One predicted token, with the attention at its step; S is the number of source tokens."""

    token: str
    log_probability: LogProbability  # log p(token | previous tokens, source), natural
    parent: NonNegativeInt | None = None  # in a beam: index of the previous step, which is earlier; None: first step
    weights: tuple[Weight, ...] | None = None  # (S,) a_j; None: no attention, or a pruned step
    scores: tuple[float, ...] | None = None  # (S,) e_j before normalization; None: no weights, or no score per position


@dataclass(frozen=True, config=STRICT)
class BeamHypothesis:
    """A translation that the search returned: the path to the step `last` of the beam."""

    last: NonNegativeInt
    log_probability: LogProbability  # log p(Y | X)
    score: float  # the search's ranking criterion


@dataclass(frozen=True, config=STRICT)
class DecodingTrace:
    """One sentence decoded by one arm: the beam as a tree, and forced decoding of the reference."""

    arm: str
    seed: int
    beam_size: PositiveInt
    source: Words  # the model's source tokens, including `</s>`; of a source that is not text, names of its states
    source_words: tuple[NonNegativeInt, ...] | None  # index of each token's word, but `</s>`; None: not text
    target_words: tuple[NonNegativeInt, ...]  # index of the word in the reference of each of its tokens
    norms: tuple[NonNegativeFloat, ...] | None  # (S,) |v_j| of the attended values; None: no weighted sum of values
    beam: tuple[DecodingStep, ...]  # every step that the search extended, and the last step of each hypothesis
    hypotheses: NonEmpty[BeamHypothesis]  # best first
    reference: NonEmpty[DecodingStep]  # first to last
    grid: PositiveInt = 1  # rows of the states of a source that is not text; 1: they are a sequence

    @model_validator(mode="after")
    def _fits_together(self) -> DecodingTrace:
        for name, steps in {"beam": self.beam, "reference": self.reference}.items():
            for number, step in enumerate(steps):
                if step.parent is not None and step.parent >= number:
                    raise ValueError(f"{name}.{number}: parent {step.parent} is not an earlier step")
                if any(row is not None and len(row) != len(self.source) for row in (step.weights, step.scores)):
                    raise ValueError(f"{name}.{number}: weights and scores need {len(self.source)} numbers")
        if any(hypothesis.last >= len(self.beam) for hypothesis in self.hypotheses):
            raise ValueError(f"hypotheses: last must be one of the {len(self.beam)} steps of the beam")
        for key, count, values in (
            ("source_words", len(self.source) - 1, self.source_words),
            ("target_words", len(self.reference) - 1, self.target_words),
            ("norms", len(self.source), self.norms),
        ):
            if values is not None and len(values) != count:
                raise ValueError(f"{key} needs {count} numbers")
        if len(self.source) % self.grid:
            raise ValueError(f"{len(self.source)} states are no grid of {self.grid} rows")
        return self

    def path(self, hypothesis: BeamHypothesis) -> list[int]:
        """Indices in the beam of a translation's steps, first to last."""
        indices: list[int] = []
        index: int | None = hypothesis.last
        while index is not None:
            indices.append(index)
            index = self.beam[index].parent
        return indices[::-1]


@dataclass(frozen=True, config=STRICT)
class Example:
    """A sentence pair of the test set, decoded by every arm."""

    line: PositiveInt  # in the test set, from 1
    source: str
    reference: str
    gold: LinkPairs | None
    readings: NonEmpty[DecodingTrace]  # one per arm
    seen: SeenSource | None = None  # of a source that is not text

    @model_validator(mode="after")
    def _tokens_are_of_its_words(self) -> Example:
        for trace in self.readings:
            require_words(self.source, trace.source_words or ())
            require_words(self.reference, trace.target_words)
        return self


EXAMPLES = RecordFile("examples.json", TypeAdapter(tuple[Example, ...]))


@dataclass(frozen=True, config=STRICT)
class ScoredTranslation:
    """The translation of a sentence by the first seed of one arm."""

    text: str
    score: float


@dataclass(frozen=True, config=STRICT)
class ContrastiveSentence:
    """A sentence pair of the test set and its translations by arm."""

    line: PositiveInt  # in the test set, from 1
    source: str
    reference: str
    translations: Mapping[str, ScoredTranslation]

    def difference(self, arm: str, baseline: str) -> float:
        """Score of the arm minus that of the baseline."""
        return self.translations[arm].score - self.translations[baseline].score


@dataclass(frozen=True, config=STRICT)
class ContrastiveSentences:
    """For each comparison, at least the `SHOWN` sentences with the largest and with the smallest gains of the arm."""

    metric: str  # of the scores
    signature: str
    sentences: tuple[ContrastiveSentence, ...]

    def ranked(self, arm: str, baseline: str) -> list[ContrastiveSentence]:
        """All sentences, the largest gain first; of equal gains, the one with the better translation by the arm."""

        def rank(sentence: ContrastiveSentence) -> tuple[float, float, int]:
            return -sentence.difference(arm, baseline), -sentence.translations[arm].score, sentence.line

        return sorted(self.sentences, key=rank)


SENTENCES = RecordFile("sentences.json", TypeAdapter(ContrastiveSentences))
