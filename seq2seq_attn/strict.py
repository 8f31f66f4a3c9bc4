"""Strict configuration records: read from YAML, overridden by `key.path=value`, checked once, written back.

pydantic finds mistakes but reports them in terms of its own classes, which no user has written. Here a mistake becomes
one line: file, line, key, value, what is expected there and the closest valid name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from seq2seq_attn.errors import UserError


class Strict(BaseModel):
    """Base of all configuration records: typed, immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Record = TypeVar("Record", bound=Strict)


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
    """A record from plain values. Raises UserError, in one line, for the first mistake."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        raise UserError(_explain(record, error, values, path)) from None


def dump(record: Strict) -> str:
    """The record as YAML, defaults included; `load` reads it back to an equal record."""
    return yaml.safe_dump(record.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """The values with overrides `key.path=value` applied; the value is YAML, so `[1, 2]`, `true` and `null` work."""
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


# What is expected instead, by pydantic's type of error; the fields in braces are in the error's context.
_WANTED = {
    "model_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "missing": "a longer list",  # of a list only: a missing key has its own message
    "too_long": "a list of {max_length} at most",
    "path_type": "the path of a file",
    "string_type": "text in quotes",  # YAML does not read no, 5 and null as text
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "float_type": "a number",
    "float_parsing": "a number",
    "greater_than": "a number greater than {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number less than {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
}


def wanted(errors: Sequence[ErrorDetails]) -> str:
    """What is expected where these errors are; pydantic reports one for each member of a union."""
    kinds = [_WANTED[each["type"]].format(**each.get("ctx", {})) for each in errors if each["type"] in _WANTED]
    if not kinds:
        return errors[0]["msg"].removeprefix("Value error, ")
    return f"{' or '.join(dict.fromkeys(kinds))} is wanted"


def _explain(record: type[Strict], error: ValidationError, values: Mapping[str, Any], path: Path | None) -> str:
    """The first mistake in the values of a record; `path` is the file that they come from, if any."""
    errors = error.errors()
    first, keys = errors[0], _place(errors[0], values)
    place = "" if path is None else f"{path}{_line(path, keys)}: "
    name = ".".join(keys)
    if first["type"] in ("extra_forbidden", "invalid_key"):
        known = _keys_at(record, keys[:-1])
        return f"{place}unknown key {name!r}{_nearest(keys[-1], known)}; known here: {', '.join(known)}"
    if first["type"] == "missing" and keys[-1] == first["loc"][-1]:
        return f"{place}{name} is missing and has no default"
    subject = f"{name}{_shown(first['input'])}: " if name else ""  # none for a rule about the whole record
    rule = wanted([each for each in errors if _place(each, values) == keys])
    return f"{place}{subject}{rule}{_way_out(record, first, keys)}"


def _place(error: ErrorDetails, values: Any) -> tuple[str, ...]:
    """The path of keys, without the entries that pydantic inserts for the members of a union."""
    keys = []
    for key in error["loc"]:
        if _has(values, key):
            keys.append(str(key))
            values = values[key]
    if error["type"] == "missing" and isinstance(error["loc"][-1], str):
        keys.append(error["loc"][-1])
    return tuple(keys)


def _has(values: Any, key: str | int) -> bool:
    if isinstance(values, Mapping):
        return key in values
    return isinstance(values, (list, tuple)) and key in range(len(values))


def _shown(value: Any) -> str:
    if isinstance(value, (Mapping, Strict)):
        return ""
    return f" = {'null' if value is None else repr(value)}"


def _way_out(record: type[Strict], error: ErrorDetails, keys: tuple[str, ...]) -> str:
    """The closest valid name, or the keys of the record that is expected."""
    if error["type"] == "literal_error":
        names = error["ctx"]["expected"].replace(" or ", ",").split(",")
        return _nearest(str(error["input"]), [name.strip("' ") for name in names])
    if error["type"] == "model_type":
        known = _keys_at(record, keys)
        return f", as in {{{known[0]}: ...}}; known here: {', '.join(known)}"
    return ""


def _keys_at(record: type[Strict], keys: tuple[str, ...]) -> list[str]:
    for key in keys:
        field = record.model_fields.get(key)
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())] if field else []
        record = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Strict)), Strict)
    return list(record.model_fields)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [k for k in known if k], n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _line(path: Path, keys: tuple[str, ...]) -> str:
    """`:12`, the line in a YAML file of the longest prefix of these keys that it contains; "" if none."""
    node, line = yaml.compose(path.read_text(encoding="utf-8")), None
    for key in keys:
        found = [
            (name, value)
            for name, value in (node.value if isinstance(node, yaml.MappingNode) else [])
            if name.value == key
        ]
        if not found:
            break
        line, node = found[0][0].start_mark.line + 1, found[0][1]
    return f":{line}" if line else ""
