"""A mistake that pydantic found, in one line and in terms of what a user has written."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seq2seq_attn.errors import COMPARED, did_you_mean, shown
from seq2seq_attn.files.plain import MAX_CHARACTERS, compose_yaml
from seq2seq_attn.files.reading import read_text
from seq2seq_attn.strict.records import Strict

# What is expected instead, by pydantic's type of error; the fields in braces are in the error's context.
_WANTED = {
    "model_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "missing": "a longer list",  # of a list only: a missing key has its own message
    "too_short": "a list of at least {min_length}",
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
    "less_than": "a number less than {lt:,.15g}",
    "less_than_equal": "a number of at most {le:,.15g}",
}


def wanted(errors: Sequence[ErrorDetails]) -> str:
    """What is expected where these errors are; pydantic reports one for each member of a union."""
    kinds = [_WANTED[each["type"]].format(**each.get("ctx", {})) for each in errors if each["type"] in _WANTED]
    if not kinds:
        return errors[0]["msg"].removeprefix("Value error, ")
    return f"{' or '.join(dict.fromkeys(kinds))} is wanted"


def explain(record: type[Strict], error: ValidationError, values: Mapping[str, Any]) -> str:
    """The first mistake in the values of a record."""
    errors = error.errors()
    first, keys = errors[0], place_of(errors[0], values)
    name = ".".join(keys)
    if first["type"] in ("extra_forbidden", "invalid_key"):
        known = ", ".join(_keys_at(record, keys[:-1], values))
        name = ".".join([*keys, *_single_keys(first["input"])])
        return f"unknown key {shown(name)}{_nearest_path(name, record, values)}; known here: {known}"
    if first["type"] == "missing" and keys[-1] == first["loc"][-1]:
        return f"{name} is missing and has no default"
    subject = f"{name}{_shown(first['input'])}: " if name else ""  # none for a rule about the whole record
    rule = wanted([each for each in errors if place_of(each, values) == keys])
    return f"{subject}{rule}{_way_out(record, first, keys, values)}"


def place_of(error: ErrorDetails, values: Any) -> tuple[str, ...]:
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
    return f" = {'null' if value is None else shown(value)}"


def _way_out(record: type[Strict], error: ErrorDetails, keys: tuple[str, ...], values: Any) -> str:
    """The closest valid name, or the keys of the record that is expected."""
    if error["type"] == "literal_error":
        names = error["ctx"]["expected"].replace(" or ", ",").split(",")
        hint = did_you_mean(str(error["input"]), [name.strip("' ") for name in names])
        return hint and f" ({hint})"
    if error["type"] == "model_type":
        known = _keys_at(record, keys, values)
        return f", as in {{{known[0]}: ...}}; known here: {', '.join(known)}"
    return ""


def _keys_at(record: type[Strict], keys: tuple[str, ...], values: Any) -> list[str]:
    record = record.record_for(values)
    for key in keys:
        if isinstance(values, (list, tuple)):  # of records: `record` is that of its entries
            values = values[int(key)]
            record = record.record_for(values)
            continue
        values = values[key] if _has(values, key) else None
        record = _record_of(record, key, values)
    return list(record.model_fields)


def _record_of(record: type[Strict], key: str, values: Any) -> type[Strict]:
    """The record of a field with these values; `Strict` itself if the field has none."""
    field = record.model_fields.get(key)
    kinds = [field.annotation, *getattr(field.annotation, "__args__", ())] if field else []
    inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Strict)), Strict)
    return inner.record_for(values)


def _paths(record: type[Strict], values: Any) -> Iterator[str]:
    """All keys of a record and of the records in it, as `model.encoder.hidden_size`."""
    for key in record.record_for(values).model_fields:
        yield key
        inside = values[key] if _has(values, key) else None
        inner = _record_of(record.record_for(values), key, inside)
        yield from (f"{key}.{path}" for path in _paths(inner, inside))


def _single_keys(value: Any) -> list[str]:
    """The keys that lead into nested mappings of one key each, as an override makes them."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, inside),) = value.items()
        return [str(key), *_single_keys(inside)]
    return []


def _nearest_path(name: str, record: type[Strict], values: Any) -> str:
    """The keys most like an unknown one, at any depth: `encoder.hiden_size` may mean `model.encoder.hidden_size`."""
    if len(name) > COMPARED:
        return ""
    if name in _paths(record, values):  # a single key that has dots in it
        outer, _, inner = name.partition(".")
        return f" (write it as {outer}: {{{inner.replace('.', ': {')}: ...{'}' * name.count('.')})"
    depth = name.count(".") + 1

    def likeness(path: str) -> float:
        keys = path.split(".")
        is_sibling = path.rpartition(".")[0] == name.rpartition(".")[0]
        if _ratio(name.split(".")[-1], keys[-1]) < (_ALIKE if is_sibling else _ALIKE_ELSEWHERE):
            return 0.0
        return max(_ratio(name, path), _ratio(name, ".".join(keys[-depth:])))

    scores = {path: likeness(path) for path in _paths(record, values)}
    best = max(scores.values(), default=0.0)
    near = [path for path, score in scores.items() if score == best >= _ALIKE]
    near = [repr(path) for path in near if path.count(".") == min(each.count(".") for each in near)]
    return f" (did you mean {' or '.join(near)}?)" if 0 < len(near) <= 3 else ""


_ALIKE = 0.6  # as difflib's default cutoff
_ALIKE_ELSEWHERE = 0.75  # among the keys of all other records, chance finds some that are alike


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def line_of(path: Path, keys: tuple[str, ...]) -> str:
    """`:12`, the line in a YAML file of the longest prefix of these keys that it contains; "" if none."""
    node, line = compose_yaml(read_text(path, MAX_CHARACTERS)), None
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
