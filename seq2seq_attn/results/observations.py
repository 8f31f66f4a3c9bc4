"""The contents of the report besides the scores: learning curves, attention, example sentences and reproduction.

One file per kind: curves.json, attention.json, corpus_attention.json, examples.json, sentences.json, making.json. Each
`load_*` raises a UserError with the file and the key if the file is malformed; each `save_*` writes atomically.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, NonEmpty, Words, load_record, save_record

Weight = Annotated[
    float, Field(ge=0)
]  # may exceed 1 where rows need not sum to 1 (sigmoid) and the weights of a word's pieces are summed
LogProbability = Annotated[float, Field(le=0.01)]  # rounding may bring it above 0
LinkPairs = tuple[tuple[NonNegativeInt, NonNegativeInt], ...]  # (source word, target word), from 0

CURVES, ATTENTION = "curves.json", "attention.json"
CORPUS, EXAMPLES, SENTENCES, REPRODUCTION = "corpus_attention.json", "examples.json", "sentences.json", "making.json"

SHOWN = 5  # sentences with the largest, and with the smallest, gains per comparison in sentences.json


# Learning curves: curves.json


GAIN_IN_LOSS = 0.01  # relative; a smaller one does not matter


@dataclass(frozen=True, config=STRICT)
class Curve:
    """Validation scores of one training run, one entry per validation."""

    seed: int
    epoch: tuple[float, ...]
    validation_loss: tuple[float, ...]  # nats per target token
    validation_score: tuple[float | None, ...]  # in the main metric; None if not computed

    def is_still_improving(self, sign: int, gain: float) -> bool:
        """Whether training was stopped too early: the last fifth of the validations brought a gain that matters.

        That is a score better than the best before by more than `gain` points, or, if there are no scores, a loss lower
        by more than `GAIN_IN_LOSS` of the lowest before. False with fewer than two validations. `sign` is -1 if lower
        scores are better, else 1.
        """
        last = math.ceil(len(self.epoch) / 5)
        scores = [sign * score for score in self.validation_score if score is not None]
        if len(self.epoch) < 2:
            return False
        if len(scores) == len(self.epoch):
            return max(scores[-last:]) - max(scores[:-last]) > gain
        return min(self.validation_loss[-last:]) < (1 - GAIN_IN_LOSS) * min(self.validation_loss[:-last])

    @model_validator(mode="after")
    def _equal_lengths(self) -> Curve:
        if not len(self.epoch) == len(self.validation_loss) == len(self.validation_score):
            raise ValueError("epoch, validation_loss and validation_score differ in length")
        return self


def load_curves(path: Path) -> Mapping[str, Sequence[Curve]]:
    """The curves of the runs of each arm."""
    return load_record(_CURVES, path)


def save_curves(curves: Mapping[str, Sequence[Curve]], path: Path) -> None:
    save_record(_CURVES, {arm: tuple(runs) for arm, runs in curves.items()}, path)


# Attention between words: attention.json


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


def load_attention(path: Path) -> Sequence[AttentionMap]:
    return load_record(_ATTENTION, path)


def save_attention(maps: Iterable[AttentionMap], path: Path) -> None:
    save_record(_ATTENTION, tuple(maps), path)


# Attention on the sentences of the test set: corpus_attention.json

LEVELS = 255  # weights are rounded to multiples of 1/255


def _require_words(line: str, words: Sequence[int]) -> None:
    """ValueError if one of the words of tokens, counted from 0, is not in the line."""
    count = max(1, len(line.split()))
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
                _require_words(pair.source, source_words)
                _require_words(pair.reference, target_words)
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
    """Weights as bytes, `round(255 a)`, row by row, one matrix after another; zlib-compressed, in base64."""
    levels = [np.rint(np.clip(np.asarray(each), 0, 1) * LEVELS).astype(np.uint8).tobytes() for each in matrices]
    return base64.b64encode(zlib.compress(b"".join(levels), 9)).decode("ascii")


def unpack_weights(packed: str, shapes: Sequence[tuple[int, int]]) -> list[NDArray[np.float64]]:
    """The matrices, to within 1/510 of a weight. ValueError: other shapes, or not from `pack_weights`."""
    try:
        levels = np.frombuffer(zlib.decompress(base64.b64decode(packed, validate=True)), np.uint8)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"weights cannot be decompressed: {error}") from None
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    if len(levels) != ends[-1]:
        raise ValueError(f"weights contain {len(levels)} numbers, but the tokens of all pairs need {ends[-1]}")
    parts = np.split(levels / LEVELS, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def load_corpus_attention(path: Path) -> CorpusAttention:
    return load_record(_CORPUS_ATTENTION, path)


def save_corpus_attention(attention: CorpusAttention, path: Path) -> None:
    save_record(_CORPUS_ATTENTION, attention, path)


# A few test sentences, decoded by every arm: examples.json


@dataclass(frozen=True, config=STRICT)
class DecodingStep:
    """One predicted token, with the attention at its step; S is the number of source tokens."""

    token: str
    log_probability: LogProbability  # log p(token | previous tokens, source), natural
    parent: NonNegativeInt | None = None  # in a beam: index of the previous step, which is earlier; None: first step
    weights: tuple[Weight, ...] | None = None  # (S,) a_j; None: no attention, or a pruned step
    scores: tuple[float, ...] | None = None  # (S,) e_j before normalization; None: no weights, or no score per position

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None}


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
    source: Words  # the model's source tokens, including `</s>`
    source_words: tuple[NonNegativeInt, ...]  # index of each token's word in the line; `</s>` has none
    target_words: tuple[NonNegativeInt, ...]  # index of the word in the reference of each of its tokens
    norms: tuple[NonNegativeFloat, ...] | None  # (S,) |v_j| of the attended values; None: no weighted sum of values
    beam: tuple[DecodingStep, ...]  # every step that the search extended, and the last step of each hypothesis
    hypotheses: NonEmpty[BeamHypothesis]  # best first
    reference: NonEmpty[DecodingStep]  # first to last

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

    @model_validator(mode="after")
    def _tokens_are_of_its_words(self) -> Example:
        for trace in self.readings:
            _require_words(self.source, trace.source_words)
            _require_words(self.reference, trace.target_words)
        return self


def load_examples(path: Path) -> Sequence[Example]:
    return load_record(_EXAMPLES, path)


def save_examples(examples: Sequence[Example], path: Path) -> None:
    save_record(_EXAMPLES, tuple(examples), path)


# The test sentences on which arms differ most: sentences.json


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


def load_sentences(path: Path) -> ContrastiveSentences:
    return load_record(_SENTENCES, path)


def save_sentences(sentences: ContrastiveSentences, path: Path) -> None:
    save_record(_SENTENCES, sentences, path)


# Question, command and configurations: making.json


@dataclass(frozen=True, config=STRICT)
class Reproduction:
    """The question of an experiment, the command that reproduces it, and the complete configuration of each arm."""

    question: str
    command: str  # "" if the comparison was started from Python
    configurations: Mapping[str, Mapping[str, Any]]  # by arm, that of its first seed

    def differences(self) -> dict[str, list[str]]:
        """Each key in which the arms differ, with its value in every arm, in order; "" for an arm without the key."""
        return differing_keys(self.configurations.values())


def differing_keys(configurations: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each `key.path` in which configurations differ, with its value in each; "" in one without the key."""
    flat = [dict(_flat(values)) for values in configurations]
    keys = dict.fromkeys(key for values in flat for key in values)
    rows = {key: [values.get(key, "") for values in flat] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def load_reproduction(path: Path) -> Reproduction:
    return load_record(_REPRODUCTION, path)


def save_reproduction(reproduction: Reproduction, path: Path) -> None:
    save_record(_REPRODUCTION, reproduction, path)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "null" if value is None else str(value)


_CURVES = TypeAdapter(dict[str, tuple[Curve, ...]])
_ATTENTION = TypeAdapter(tuple[AttentionMap, ...])
_CORPUS_ATTENTION = TypeAdapter(CorpusAttention)
_EXAMPLES = TypeAdapter(tuple[Example, ...])
_SENTENCES = TypeAdapter(ContrastiveSentences)
_REPRODUCTION = TypeAdapter(Reproduction)
