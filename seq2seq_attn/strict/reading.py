"""Records from YAML and overrides, and back to YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.plain import MAX_CHARACTERS, MAX_DEPTH, NotPlainError, YamlSyntaxError, parse_yaml
from seq2seq_attn.files.reading import read_text
from seq2seq_attn.strict.mistakes import explain, line_of, place_of
from seq2seq_attn.strict.records import Strict


class ConfigError(UserError):
    """A mistake in the values of a record, at these keys; `place` says where they come from."""

    def __init__(self, message: str, keys: tuple[str, ...], place: str = "") -> None:
        super().__init__(f"{place}{message}")
        self.message = message
        self.keys = keys


Record = TypeVar("Record", bound=Strict)
Parsed = TypeVar("Parsed")
Override = str | tuple[str, Any]  # `key.path=value`, as typed, or `key.path` and a value


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        values = parse_yaml(read_text(path, MAX_CHARACTERS))
    except NotPlainError as error:
        line = f":{error.line}" if error.line else ""
        what = "not YAML" if isinstance(error, YamlSyntaxError) else "cannot be used"
        raise UserError(f"{path}{line}: {what}: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: a configuration is a mapping of keys to values, got {type(values).__name__}")
    return values


def parse_overridden(overrides: Sequence[Override], parse: Callable[[Sequence[Override]], Parsed]) -> Parsed:
    """What `parse` makes of the overrides; its ConfigError is blamed on the command line if an override causes it.

    `parse` is called without overrides as well, to find that out. Overrides that are no text were given in Python.
    """
    try:
        return parse(overrides)
    except ConfigError as error:
        given = [tuple(overridden_key(each).split(".")) for each in overrides]
        if not any(keys[: len(error.keys)] == error.keys[: len(keys)] for keys in given):
            raise
        try:
            parse(())
        except ConfigError as without:
            if str(without) == str(error):
                raise
        place = "command line" if isinstance(overrides[0], str) else "override"
        raise UserError(f"{place}: {error.message}") from None


def parse(record: type[Record], values: Mapping[str, Any], path: Path | None = None) -> Record:
    """A record from plain values. Raises ConfigError, in one line, for the first mistake."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        keys = place_of(error.errors()[0], values)
        place = "" if path is None else f"{path}{line_of(path, keys)}: "
        raise ConfigError(explain(record, error, values), keys, place) from None


def dump(record: Strict | Mapping[str, Any]) -> str:
    """The record as YAML, defaults included, which is read back to an equal record. Plain values stay as they are."""
    values = record.model_dump(mode="json") if isinstance(record, Strict) else dict(record)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def override(values: Mapping[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """The values with overrides applied: `key.path=value`, or `key.path` and a value.

    The former is YAML, so `[1, 2]`, `true` and `null` work.
    """
    result, seen = dict(values), set[str]()
    for each in overrides:
        key, value = each if isinstance(each, tuple) else _parse_override(each)
        if key in seen:
            raise UserError(f"override {shown(key)}: given more than once; give one value")
        seen.add(key)
        keys = key.split(".")
        if len(keys) > MAX_DEPTH:
            raise UserError(
                f"override {shown(key)}: {len(keys):,} nested keys; a configuration has {MAX_DEPTH} at most"
            )
        result = merge(result, _nested(keys, value))
    return result


def overridden_key(given: Override) -> str:
    """The `key.path` of an override."""
    return given.partition("=")[0] if isinstance(given, str) else given[0]


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"override {shown(text)}: give key.path=value, as in training.batch_size=32")
    try:
        return key, parse_yaml(value)
    except YamlSyntaxError:
        return key, value
    except NotPlainError as error:
        raise UserError(f"override {shown(text)}: {error}") from None


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the change applied, mappings merged key by key; neither argument is modified.

    A part that the base gives by name only keeps its name: `scorer: concat` is short for `scorer: {name: concat}`.
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
