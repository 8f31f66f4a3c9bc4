"""What was seen beside the scores: learning curves (curves.json) and attention weights (attention.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT, load

Weight = Annotated[float, Field(ge=0)]  # above 1 where rows need not sum to 1 (sigmoid), summed over a word's pieces
Words = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class Curve:
    """The validation figures of one training run, one entry a validation."""

    seed: int
    epoch: tuple[float, ...]
    validation_loss: tuple[float, ...]  # nats per target token
    validation_bleu: tuple[float | None, ...]  # None where it was not computed

    @model_validator(mode="after")
    def _as_many_each(self) -> Curve:
        if not len(self.epoch) == len(self.validation_loss) == len(self.validation_bleu):
            raise ValueError("epoch, validation_loss and validation_bleu differ in length")
        return self


@dataclass(frozen=True, config=STRICT)
class AttentionMap:
    """Where an arm looked in one sentence: weights (target words, source words), a row a predicted word."""

    arm: str
    source: Words
    target: Words
    weights: tuple[tuple[Weight, ...], ...]
    gold: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] | None  # links (source word, target word), from 0

    @model_validator(mode="after")
    def _weights_and_links_fit_the_words(self) -> AttentionMap:
        rows, columns = len(self.target), len(self.source)
        if len(self.weights) != rows or any(len(row) != columns for row in self.weights):
            raise ValueError(f"weights need {rows} rows (target words) of {columns} numbers (source words)")
        for i, j in self.gold or ():
            if i >= columns or j >= rows:
                raise ValueError(f"gold link {i}-{j} is outside {columns} source and {rows} target words")
        return self


def load_curves(path: Path) -> Mapping[str, Sequence[Curve]]:
    """The runs of each arm. UserError with the file and the key if they are malformed."""
    return load(_CURVES, path)


def load_attention(path: Path) -> Sequence[AttentionMap]:
    """Errors as of `load_curves`."""
    return load(_ATTENTION, path)


_CURVES = TypeAdapter(dict[str, tuple[Curve, ...]])
_ATTENTION = TypeAdapter(tuple[AttentionMap, ...])
