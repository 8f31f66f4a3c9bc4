"""A few test sentences as every arm reads and translates them, step by step (examples.json)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT, load, save
from seq2seq_attn.results.observations import Weight, Words
from seq2seq_attn.results.results import NonEmpty


@dataclass(frozen=True, config=STRICT)
class Step:
    """One predicted token, and what was read of the source to predict it; S counts the source's tokens."""

    token: str
    log_probability: float  # log p(token | the tokens before it, source), natural
    parent: NonNegativeInt | None = None  # in a beam the step before it, an earlier one of the list; None: the first
    weights: tuple[Weight, ...] | None = None  # (S,) a_j; None: nothing was read, or the search abandoned the step
    scores: tuple[float, ...] | None = None  # (S,) e_j, before normalising; None: as weights, or not one a position

    @model_serializer(mode="wrap")
    def _what_is_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None}


@dataclass(frozen=True, config=STRICT)
class Found:
    """A translation that the search returned: the path to `last`."""

    last: NonNegativeInt
    log_probability: float  # log p(Y | X)
    score: float  # what it was ranked by


@dataclass(frozen=True, config=STRICT)
class ArmReading:
    """One sentence under one arm: the beam as a tree, and the reference, which was forced."""

    arm: str
    seed: int
    beam_size: PositiveInt
    source: Words  # tokens as the model reads them, `</s>` included
    source_words: tuple[NonNegativeInt, ...]  # which word of the line each is; `</s>` is none
    target_words: tuple[NonNegativeInt, ...]  # which word of the reference each of its tokens is
    norms: tuple[NonNegativeFloat, ...] | None  # (S,) |v_j| of what is summed under the weights; None: no such sum
    beam: tuple[Step, ...]  # every step that the search went on with, and the last ones of what it found
    hypotheses: NonEmpty[Found]  # what it found, best first
    reference: NonEmpty[Step]  # first to last

    @model_validator(mode="after")
    def _fits_together(self) -> ArmReading:
        for name, steps in {"beam": self.beam, "reference": self.reference}.items():
            for number, step in enumerate(steps):
                if step.parent is not None and step.parent >= number:
                    raise ValueError(f"{name}.{number}: parent {step.parent} does not come before it")
                if any(row is not None and len(row) != len(self.source) for row in (step.weights, step.scores)):
                    raise ValueError(f"{name}.{number}: weights and scores need {len(self.source)} numbers")
        if any(found.last >= len(self.beam) for found in self.hypotheses):
            raise ValueError(f"hypotheses: last must be one of the {len(self.beam)} steps of the beam")
        for key, count, of in (
            ("source_words", len(self.source) - 1, self.source_words),
            ("target_words", len(self.reference) - 1, self.target_words),
            ("norms", len(self.source), self.norms),
        ):
            if of is not None and len(of) != count:
                raise ValueError(f"{key} needs {count} numbers")
        return self

    def path(self, found: Found) -> list[int]:
        """The places in the beam of a translation's steps, first to last."""
        places: list[int] = []
        at: int | None = found.last
        while at is not None:
            places.append(at)
            at = self.beam[at].parent
        return places[::-1]


@dataclass(frozen=True, config=STRICT)
class Example:
    """A sentence pair of the test set under every arm."""

    line: PositiveInt  # of the test set
    source: str
    reference: str
    gold: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] | None  # links (source word, target word), from 0
    readings: NonEmpty[ArmReading]


def load_examples(path: Path) -> Sequence[Example]:
    """UserError with the file and the key if they are malformed."""
    return load(_EXAMPLES, path)


def save_examples(examples: Sequence[Example], path: Path) -> None:
    """Write JSON, whole or not at all."""
    save(_EXAMPLES, tuple(examples), path)


_EXAMPLES = TypeAdapter(tuple[Example, ...])
