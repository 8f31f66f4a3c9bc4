"""What a configuration refuses, in one line: file, line, key, value, what is wanted and the nearest name.

pydantic finds the mistakes, but says them in the words of its own classes, which no user has written.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seq2seq_attn.strict import Strict

# By pydantic's type of error. In braces what it tells of the rule.
_WANTED = {
    "model_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "missing": "a longer list",  # of a list only: a missing key is said otherwise
    "too_long": "a list of {max_length} at most",
    "path_type": "the path of a file",
    "string_type": "text in quotes",  # YAML reads no, 5 and null otherwise
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
    """What is wanted in the place of these errors; there is one for each kind of value that a union may be."""
    kinds = [_WANTED[each["type"]].format(**each.get("ctx", {})) for each in errors if each["type"] in _WANTED]
    if not kinds:
        return errors[0]["msg"].removeprefix("Value error, ")
    return f"{' or '.join(dict.fromkeys(kinds))} is wanted"


def explain(record: type[Strict], error: ValidationError, values: Mapping[str, Any], path: Path | None) -> str:
    """The first thing that is wrong with these values of a record, which stand in the file `path`, if in one."""
    errors = error.errors()
    first, keys = errors[0], _place(errors[0], values)
    place = "" if path is None else f"{path}{_line(path, keys)}: "
    name = ".".join(keys)
    if first["type"] in ("extra_forbidden", "invalid_key"):
        known = _keys_at(record, keys[:-1], values)
        return f"{place}unknown key {name!r}{_nearest(keys[-1], known)}; known here: {', '.join(known)}"
    if first["type"] == "missing" and keys[-1] == first["loc"][-1]:
        return f"{place}{name} is missing and has no default"
    subject = f"{name}{_shown(first['input'])}: " if name else ""  # none where the rule is one of the whole record
    rule = wanted([each for each in errors if _place(each, values) == keys])
    return f"{place}{subject}{rule}{_way_out(record, first, keys, values)}"


def _place(error: ErrorDetails, values: Any) -> tuple[str, ...]:
    """The keys that lead there, without what pydantic puts between them to tell the kinds of a union."""
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


def _way_out(record: type[Strict], error: ErrorDetails, keys: tuple[str, ...], values: Any) -> str:
    """The nearest of the names that may stand there, or the keys of the record that should."""
    if error["type"] == "literal_error":
        names = error["ctx"]["expected"].replace(" or ", ",").split(",")
        return _nearest(str(error["input"]), [name.strip("' ") for name in names])
    if error["type"] == "model_type":
        known = _keys_at(record, keys, values)
        return f", as in {{{known[0]}: ...}}; known here: {', '.join(known)}"
    return ""


def _keys_at(record: type[Strict], keys: tuple[str, ...], values: Any) -> list[str]:
    record = record.record_for(values)
    for key in keys:
        field = record.model_fields.get(key)
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())] if field else []
        record = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Strict)), Strict)
        values = values[key] if _has(values, key) else None
        record = record.record_for(values)
    return list(record.model_fields)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [k for k in known if k], n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _line(path: Path, keys: tuple[str, ...]) -> str:
    """`:12` where a YAML file says something of these keys, as deep as it does."""
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
