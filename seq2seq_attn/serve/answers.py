"""The answers of endpoints: their fields, from which they are described. What they hold are records of the package.

They are written by `plain`, not by these classes. A field with a default is left out where nothing asked for it.
"""

# ruff: noqa: N815 - the names of some fields are LibreTranslate's
from __future__ import annotations

from typing import Any, NamedTuple

from seq2seq_attn.analysis.neighbors import Neighbor
from seq2seq_attn.analysis.stepwise import Continuation, DecodedStep
from seq2seq_attn.api.answers import PairScore
from seq2seq_attn.corpora.placeholders import Placed
from seq2seq_attn.corpora.unknown_words import ReadAs
from seq2seq_attn.runs.requests import Constraint, Replacement
from seq2seq_attn.strict import Strict


class ErrorAnswer(Strict):
    """Any answer other than 200."""

    error: str  # one line: what is wrong, and what would be right


class HealthAnswer(Strict):
    """A server that answers."""

    status: str  # ok


class Detected(NamedTuple):
    """A language that a text may be in."""

    confidence: int  # 0 to 100
    language: str  # its code


class LibreTranslateAnswer(Strict):
    """As of LibreTranslate; for a list of texts, each field is a list."""

    translatedText: str | list[str]  # the best translation
    alternatives: list[str] | list[list[str]] | None = None  # the next ones; with `alternatives` above 0
    unknownWords: list[str] | list[list[str]] | None = None  # that the model does not know; where there are any
    detectedLanguage: Detected | list[Detected] | None = None  # with `source: auto`


class ServedLanguage(Strict):
    """A language that is served."""

    code: str  # as of the run
    name: str  # the same
    targets: list[str]  # codes of the languages that it is translated into


class LanguageName(Strict):
    """A language in a list of the page."""

    code: str  # as of the run
    name: str  # the same


class FirstLanguages(Strict):
    """The languages with which a page begins."""

    source: LanguageName  # that of the first model
    target: LanguageName  # that of the first model


class FrontendSettingsAnswer(Strict):
    """What the page of LibreTranslate asks for."""

    apiKeys: bool  # whether there are keys
    charLimit: int  # -1: there is none
    filesTranslation: bool  # not served
    frontendTimeout: int  # milliseconds after a key is pressed
    keyRequired: bool  # whether a key is needed
    language: FirstLanguages  # with which the page begins
    suggestions: bool  # not served
    supportedFilesFormat: list[str]  # none


class OutputRecord(Strict):
    """One output for a source."""

    text: str  # without special tokens
    score: float  # by which outputs are ranked
    log_probability: float  # ln p(text | source), `</s>` included
    constraints: list[Constraint] | None = None  # what was asked of it, and where it is
    replaced: list[Replacement] | None = None  # with `replace_unknown`: each `<unk>` that the model wrote
    placeholders: list[Placed] | None = None  # with `text.placeholders`: how often each is on both sides
    tokens: list[str] | None = None  # with `weights`: `</s>` last
    weights: list[list[float]] | None = None  # with `weights`: one row per target token; null: the model has none
    links: list[tuple[int, int]] | None = None  # with `align`: (source word, target word), counted from 0


class TranslationRecord(Strict):
    """A source with its outputs."""

    source: str  # as it was sent
    tokens: list[str]  # that the model read, `WORD (<unk>)` for an unknown one, `</s>` last; none for a blank source
    unknown: list[str]  # words that the model does not know
    translations: list[OutputRecord]  # the best first; none for a blank source
    sentences: list[dict[str, Any]] | None = None  # with `split_sentences`: each a source of its own


class ModelAnswer(Strict):
    """What every answer under /v1 has."""

    model: str  # name of the run


class TranslateAnswer(ModelAnswer):
    """Sources with their outputs."""

    results: list[TranslationRecord]  # one for each source


class ScoreAnswer(ModelAnswer):
    """Log-probabilities of targets."""

    results: list[PairScore]  # one for each pair


class LinksRecord(Strict):
    """A source and its target, with the links between their words."""

    source: str  # as it was sent
    target: str  # as it was sent
    links: list[tuple[int, int]]  # (source word, target word), counted from 0
    source_words: list[str]  # what a link counts


class AlignAnswer(ModelAnswer):
    """Links between words."""

    results: list[LinksRecord]  # one for each pair


class AttentionAnswer(ModelAnswer):
    """Attention weights; layers and heads where they were asked for."""

    source: list[str]  # tokens or words, `</s>` last
    target: list[str]  # tokens or words, `</s>` last
    weights: list[list[float]]  # one row for each of the target
    encoder: list[list[list[list[float]]]] | None = None  # self-attention: (layer, head, query, key)
    decoder: list[list[list[list[float]]]] | None = None  # the same of the target
    cross: list[list[list[list[float]]]] | None = None  # (layer, head, target token, source token)
    source_tokens: list[str] | None = None  # of these
    target_tokens: list[str] | None = None  # of these


class NeighborsAnswer(ModelAnswer):
    """Training pairs that are near."""

    neighbors: list[Neighbor]  # the nearest first


class SeenRecord(Strict):
    """What a source that is not text looks and sounds like. Its states lie evenly over the picture, row by row."""

    picture: str  # data:image/png;base64,...
    shape: tuple[int, int]  # its height and width in pixels
    grid: int  # rows of states; 1: they are a sequence, from left to right
    positions: int  # from left to right, such as frames or columns
    seconds: float | None  # how long the sound is; null: there is none
    sound: str | None  # data:audio/wav;base64,...; null as well if it is long


class VectorAnswer(ModelAnswer):
    """A sentence as one vector."""

    source: list[str]  # tokens, `</s>` last
    vector: list[float]  # C
    every_step: bool  # whether every step of the decoder reads it, or its first state alone
    changes: list[float]  # how far C moves when a token is exchanged, as a share of its length; of each but `</s>`


class StepsAnswer(ModelAnswer):
    """A target with all of its steps."""

    source: list[str]  # tokens, `WORD (<unk>)` for an unknown one, `</s>` last
    read_as: list[ReadAs]  # words of the source that are read otherwise than they are written
    text: str  # of the target
    log_probability: float  # ln p(target | source)
    steps: list[DecodedStep]  # one for each token
    seen: SeenRecord | None = None  # with a source that is not text


class PlaneAnswer(ModelAnswer):
    """The values of a source in the plane of their two largest principal components."""

    source: list[str]  # tokens, `</s>` last
    points: list[tuple[float, float]]  # of the value of each token
    share: float  # of the variance of the values, from 0 to 1, that the plane shows


class HypothesesAnswer(ModelAnswer):
    """Outputs that begin with a prefix."""

    hypotheses: list[Continuation]  # the best first


class ExampleRecord(Strict):
    """A pair of the test set."""

    source: str  # as in the file
    target: str  # as in the file
    links: list[tuple[int, int]] | None  # gold, (source word, target word); null: there are none


class AboutModel(Strict):
    """A model that is served."""

    name: str  # by which requests choose it
    source: str  # language code
    target: str  # language code
    kind: str  # family, as recurrent
    reads: str  # text, or the kind of a source that is sent as a file: speech, image, frames
    sample_rate: int | None  # of the recordings that it reads, in Hz; null: it reads none
    parameters: int  # how many numbers it has
    heads: list[int]  # of each layer that attends to the source
    max_length: int  # source tokens
    search: dict[str, Any]  # its options, from which those of a request differ
    normalizers: list[str]  # by which an intervention can replace its own
    examples: list[ExampleRecord]  # a short one to a long one
    glosses: dict[str, str]  # English, of the words of the embedded corpus; none for other text


class ModelsAnswer(Strict):
    """What is served."""

    models: list[AboutModel]  # the default one first
