"""Configuration: one YAML file, composed of the parts' own records, overridden by `key.path=value`.

It is parsed once, here; `explain.py` says in one line what it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, PositiveInt, ValidationError, model_validator

from seq2seq_attn.errors import UserError
from seq2seq_attn.explain import explain
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.strict import Strict
from seq2seq_attn.training.config import TrainingConfig

Record = TypeVar("Record", bound=Strict)


class PairFiles(Strict):
    """Sentence pairs: two files with the same number of lines, or one TSV; plain or .gz."""

    source: Path | None = None
    target: Path | None = None
    tsv: Path | None = None
    columns: tuple[int, int] = (0, 1)  # of the TSV: source, target

    @model_validator(mode="after")
    def _two_files_or_one(self) -> PairFiles:
        two = self.source is not None and self.target is not None
        if two == (self.tsv is not None) or (self.tsv is not None and (self.source or self.target)):
            raise ValueError("needs either source and target, or tsv")
        return self

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, source before target."""
        return tuple(path for path in (self.source, self.target, self.tsv) if path is not None)


class TestFiles(PairFiles):
    """Test pairs, and what is known of them beside."""

    __test__ = False  # for pytest: not a test

    alignments: Path | None = None  # gold links, Pharaoh format, words of the source i to words of the target j
    lc_tok: Path | None = None  # the reference lowercased, normalised and tokenised, for the BLEU of that flavour


class DataConfig(Strict):
    train: PairFiles
    validation: PairFiles
    test: TestFiles | None = None
    max_length: PositiveInt = 100  # tokens of a side; longer pairs are left out of training, and counted
    max_training_length: PositiveInt | None = None  # of the training pairs alone; None: max_length


class TextConfig(Strict):
    """From text to tokens."""

    tokeniser: Literal["word", "moses", "character", "bpe", "unigram"] = "bpe"  # the last two: sentencepiece
    vocabulary_size: PositiveInt | None = 8000  # bpe and unigram reach it exactly, the others keep at most so many
    minimum_frequency: PositiveInt = 1
    joint: bool = False  # one tokeniser and one vocabulary for both languages
    lowercase: bool = False
    source_language: str = "en"
    target_language: str = "en"


class EvaluationConfig(Strict):
    tokenize: Literal["13a", "zh", "intl", "char", "none"] = "13a"  # sacrebleu's, for BLEU
    ter: bool = True  # sacrebleu takes a minute of it for a thousand long translations that are bad
    bands: tuple[PositiveInt, ...] = (10, 20, 30, 40, 50)  # upper ends of the source-length bands, in words

    @model_validator(mode="after")
    def _bands_rise(self) -> EvaluationConfig:
        if list(self.bands) != sorted(set(self.bands)):
            raise ValueError(f"bands={list(self.bands)} must rise, as in [10, 20, 30]")
        return self


class Config(Strict):
    """One run, complete."""

    seed: int = Field(default=1, ge=0)
    data: DataConfig
    text: TextConfig = TextConfig()
    model: RecurrentConfig = RecurrentConfig()
    training: TrainingConfig = TrainingConfig()
    search: SearchOptions = SearchOptions()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _is_no_experiment(cls, values: Any) -> Any:
        if "arms" in values:
            raise ValueError("this is an experiment; train its arms with: seq2seq-attn compare")
        return values


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: a configuration is a mapping of keys to values, got {type(values).__name__}")
    return values


def load(record: type[Record], path: Path, overrides: Iterable[str] = ()) -> Record:
    """A record from a YAML file, with `key.path=value` overrides."""
    return parse(record, override(read_yaml(path), overrides), path)


def parse(record: type[Record], values: Mapping[str, Any], path: Path | None = None) -> Record:
    """A record from plain values; UserError in one line for the first thing that is wrong."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(record, error, values, path)) from None


def dump(record: Strict | Mapping[str, Any]) -> str:
    """YAML with every value, defaults too: what `load` reads back to an equal record. Plain values stay as they are."""
    values = record.model_dump(mode="json") if isinstance(record, Strict) else dict(record)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Values with `key.path=value` laid over them; the value is YAML, so `[1, 2]`, `true` and `null` work."""
    result = dict(values)
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"override {text!r}: give key.path=value, as in training.batch_size=32")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            parsed = value
        result = merge(result, _nested(key.split("."), parsed))
    return result


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Base with the change laid over it, mappings merged key by key; neither is altered.

    A part that the base gives by its name alone keeps it: `scorer: concat` is short for `scorer: {name: concat}`.
    """
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, str) and isinstance(value, Mapping):
            old = {"name": old}
        result[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    return {keys[0]: value if len(keys) == 1 else _nested(keys[1:], value)}
