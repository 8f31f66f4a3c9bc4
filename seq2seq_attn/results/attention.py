"""Attention weights of the arms while they predicted references: attention.json and corpus_attention.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, NonEmpty, Words
from seq2seq_attn.results.records import RecordFile, pack, unpack

Weight = Annotated[float, Field(ge=0)]  # over 1 where rows need not sum to 1 (sigmoid) and a word has several pieces
LinkPairs = tuple[tuple[NonNegativeInt, NonNegativeInt], ...]  # (source word, target word), from 0


@dataclass(frozen=True, config=STRICT)
class AttentionMap:
    """Attention weights of an arm on one reference: (target words, source words), one row per predicted word."""

    arm: str
    source: Words
    target: Words
    weights: tuple[tuple[Weight, ...], ...]
    gold: LinkPairs | None

    @model_validator(mode="after")
    def _weights_and_links_fit_the_words(self) -> AttentionMap:
        rows, columns = len(self.target), len(self.source)
        if len(self.weights) != rows or any(len(row) != columns for row in self.weights):
            raise ValueError(f"weights need {rows} rows (target words) of {columns} numbers (source words)")
        for i, j in self.gold or ():
            if i >= columns or j >= rows:
                raise ValueError(f"gold link {i}-{j} is outside {columns} source and {rows} target words")
        return self


ATTENTION = RecordFile("attention.json", TypeAdapter(tuple[AttentionMap, ...]))  # between words, on a few references

LEVELS = 255  # weights are rounded to multiples of 1/255


def require_words(line: str, words: Sequence[int]) -> None:
    """ValueError if one of the words of tokens, counted from 0, is not in the line, where a TAB may count as one."""
    count = max(1, len(line.split()) + line.count("\t"))
    if max(words, default=0) >= count:
        raise ValueError(f"word {max(words)} of a token is outside a line of {count} words")


@dataclass(frozen=True, config=STRICT)
class CorpusPair:
    """A sentence pair of the test set."""

    line: PositiveInt  # in the test set, from 1
    source: str
    reference: str
    gold: LinkPairs | None


@dataclass(frozen=True, config=STRICT)
class Segmentation:
    """The tokens of each pair, `</s>` last on both sides, and the word of the line that each other token belongs to."""

    source: tuple[Words, ...]
    target: tuple[Words, ...]
    source_words: tuple[tuple[NonNegativeInt, ...], ...]
    target_words: tuple[tuple[NonNegativeInt, ...], ...]

    @model_validator(mode="after")
    def _every_token_has_a_word(self) -> Segmentation:
        for side in ("source", "target"):
            words = getattr(self, f"{side}_words")
            if [len(tokens) - 1 for tokens in getattr(self, side)] != [len(each) for each in words]:
                raise ValueError(f"{side}_words needs one number for each token of {side} but `</s>`")
        if len(self.source) != len(self.target):
            raise ValueError("source and target differ in the number of pairs")
        return self

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(target tokens, source tokens) of each pair."""
        return [(len(target), len(source)) for source, target in zip(self.source, self.target, strict=True)]


@dataclass(frozen=True, config=STRICT)
class ArmAttention:
    """An arm's translations and their scores, and its attention weights while it predicted the references."""

    seed: int
    translations: tuple[str, ...]
    scores: tuple[float, ...]
    segmentation: NonNegativeInt | None  # index into those of the file; None: an arm without attention weights
    weights: str  # of all pairs, by `pack_weights`; "" without


@dataclass(frozen=True, config=STRICT)
class CorpusAttention:
    """Pairs of the test set in all arms; of a large test set, evenly spaced pairs (`observe`)."""

    sentences: PositiveInt  # of the whole test set
    metric: str  # of the scores
    pairs: NonEmpty[CorpusPair]
    segmentations: tuple[Segmentation, ...]
    arms: Mapping[str, ArmAttention]

    @model_validator(mode="after")
    def _fits_together(self) -> CorpusAttention:
        count = len(self.pairs)
        for each in self.segmentations:
            if len(each.source) != count:
                raise ValueError(f"segmentations need {count} pairs")
            for pair, source_words, target_words in zip(self.pairs, each.source_words, each.target_words, strict=True):
                require_words(pair.source, source_words)
                require_words(pair.reference, target_words)
        for name, arm in self.arms.items():
            if not len(arm.translations) == len(arm.scores) == count:
                raise ValueError(f"arm {name!r} needs {count} translations and scores")
            if arm.segmentation is not None:
                if arm.segmentation >= len(self.segmentations):
                    raise ValueError(f"arm {name!r}: there is no segmentation {arm.segmentation}")
                unpack_weights(arm.weights, self.segmentations[arm.segmentation].shapes)
        return self

    def weights(self, arm: str) -> list[NDArray[np.float64]]:
        """(target tokens, source tokens) for each pair; empty for an arm without weights."""
        own = self.arms[arm]
        if own.segmentation is None:
            return []
        return unpack_weights(own.weights, self.segmentations[own.segmentation].shapes)


def pack_weights(matrices: Sequence[ArrayLike]) -> str:
    """Weights as bytes, `round(255 a)`, row by row, one matrix after another, by `pack`."""
    levels = [np.rint(np.clip(np.asarray(each), 0, 1) * LEVELS).astype(np.uint8).tobytes() for each in matrices]
    return pack(b"".join(levels))


def unpack_weights(packed: str, shapes: Sequence[tuple[int, int]]) -> list[NDArray[np.float64]]:
    """The matrices, to within 1/510 of a weight. ValueError: other shapes, or not from `pack_weights`."""
    levels = np.frombuffer(unpack(packed), np.uint8)
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    if len(levels) != ends[-1]:
        raise ValueError(f"weights contain {len(levels)} numbers, but the tokens of all pairs need {ends[-1]}")
    parts = np.split(levels / LEVELS, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


CORPUS = RecordFile("corpus_attention.json", TypeAdapter(CorpusAttention))
