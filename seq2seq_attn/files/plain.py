"""Plain values from text and to text: YAML and JSON, of which only what cannot surprise a reader is taken.

YAML has more than a configuration needs: tags, dates, keys of any type, keys given twice, and references that turn a
few lines into gigabytes. All of these are refused with a line number instead of being interpreted, except dates: they
are read as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import yaml

from seq2seq_attn.errors import shown
from seq2seq_attn.files.nested import mapped

MAX_CHARACTERS = 50_000  # of a YAML text: a thousand lines, which take half a second to read
MAX_DEPTH = 40  # of nested mappings and lists; the deepest configuration has 7
MAX_VALUES = 50_000  # after references are resolved
MAX_DIGITS = 100  # of a number; converting thousands of them takes long, and Python refuses more than 4,300
MAX_FLOAT = 1e100  # in JSON: the square of a larger number, as in a deviation, would soon be infinite
MAX_WHOLE = 2**63  # in JSON: larger ones have no place in a tensor

_SEPARATORS = {0x2028: "\\u2028", 0x2029: "\\u2029"}  # they end a line in JavaScript, and for `str.splitlines`


class NotPlainError(ValueError):
    """A YAML text that is not read, and the line of the reason, counted from 1, if it has one."""

    def __init__(self, reason: str, mark: Any = None) -> None:
        super().__init__(reason)
        self.line: int | None = None if mark is None else mark.line + 1


class YamlSyntaxError(NotPlainError):
    """A text that is not YAML."""


def parse_yaml(text: str) -> Any:
    """The value of a YAML text: mappings with text as keys, lists, text, numbers, true and false, and null.

    NotPlainError: the text contains anything else, a key twice, or too much; YamlSyntaxError: it is not YAML.
    """
    node = compose_yaml(text)
    if node is None:
        return None
    try:
        return _Loader("").construct_document(node)
    except yaml.YAMLError as error:
        raise _explained(error) from None
    except ValueError:  # of a key `=`, or of digits that are none
        raise NotPlainError("a value that cannot be read", node.start_mark) from None


def compose_yaml(text: str) -> Any:
    """The nodes of a YAML text with their places, checked as by `parse_yaml`; None for an empty text."""
    if len(text) > MAX_CHARACTERS:
        raise NotPlainError(f"too long: a configuration has at most {MAX_CHARACTERS:,} characters")
    try:
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise _explained(error) from None
    if node is not None:
        _Checked().count(node)
    return node


class _Loader(yaml.SafeLoader):
    """Refuses tags and deep nesting while it reads; dates are text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - an instance variable of the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise NotPlainError(f"the tag {shown(event.tag)}; write the value without a tag", event.start_mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotPlainError(f"more than {MAX_DEPTH} levels of nesting", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Checked:
    """Checks nodes and counts the values that they stand for, where a reference counts as all that it refers to."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}  # by the identity of a node; 0 while it is being counted

    def count(self, node: Any) -> int:
        if id(node) not in self.counts:
            self.counts[id(node)] = 0
            if isinstance(node, yaml.MappingNode):
                _check_keys(node)
            if isinstance(node, yaml.ScalarNode):
                _check_scalar(node)
                total = 1
            else:
                inner = (part for each in node.value for part in (each if isinstance(each, tuple) else (each,)))
                total = 1 + sum(map(self.count, inner))
            if total > MAX_VALUES:
                raise NotPlainError(f"references that expand to more than {MAX_VALUES:,} values", node.start_mark)
            self.counts[id(node)] = total
        if self.counts[id(node)] == 0:
            raise NotPlainError("a reference to itself", node.start_mark)
        return self.counts[id(node)]


def _check_keys(node: Any) -> None:
    seen = set()
    for key, _ in node.value:
        kind = key.tag.rpartition(":")[2]
        if kind == "merge":  # `<<`
            continue
        if kind != "str":
            text = f" {shown(key.value)}" if isinstance(key, yaml.ScalarNode) else ""
            raise NotPlainError(f"the key{text} is not text but {_KINDS.get(kind, kind)}; quote it", key.start_mark)
        if key.value in seen:
            raise NotPlainError(f"the key {shown(key.value)} occurs twice; leave out one", key.start_mark)
        seen.add(key.value)


_KINDS = {
    "null": "null",
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "map": "a mapping",
    "seq": "a list",
}


def _check_scalar(node: Any) -> None:
    kind = node.tag.rpartition(":")[2]
    if kind in ("int", "float") and len(node.value) > MAX_DIGITS:
        raise NotPlainError(f"a number of {len(node.value):,} digits", node.start_mark)
    if "\0" in node.value or not _is_unicode(node.value):
        raise NotPlainError(f"{shown(node.value)}: a NUL or half a surrogate pair, which is no text", node.start_mark)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _explained(error: yaml.YAMLError) -> YamlSyntaxError:
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return YamlSyntaxError(str(reason), getattr(error, "problem_mark", None))


def parse_json(content: bytes) -> Any:
    """The value of a JSON text.

    ValueError: it is not JSON, not UTF-8, nested more than `MAX_DEPTH` levels deep, or has a number beyond the limits,
    infinity and NaN among them; with the place of the value.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(f"not JSON: more than {MAX_DEPTH} levels of nesting") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    _check_limits(value, ())
    return value


def _check_limits(value: Any, place: tuple[str | int, ...]) -> None:
    if isinstance(value, (dict, list)):
        if len(place) >= MAX_DEPTH:
            raise ValueError(f"{_shown_place(place)}more than {MAX_DEPTH} levels of nesting")
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if not isinstance(each, str):
                _check_limits(each, (*place, key))
    elif isinstance(value, float) and not abs(value) <= MAX_FLOAT:
        raise ValueError(f"{_shown_place(place)}{value} is not a finite number of at most {MAX_FLOAT:g}")
    elif isinstance(value, int) and abs(value) >= MAX_WHOLE:
        raise ValueError(f"{_shown_place(place)}a whole number below 2^63 is wanted")


def _shown_place(place: tuple[str | int, ...]) -> str:
    return f"{'.'.join(map(str, place))}: " if place else ""


def plain(value: Any) -> Any:
    """The value in those of JSON: a record by the names of its fields, an array as lists, a set in order."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if hasattr(value, "_asdict"):  # a NamedTuple
        value = value._asdict()
    elif is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value.tolist()


def to_json(value: Any, *, indent: int | None = None) -> str:
    """The value (`plain`) as JSON that every parser reads, on one line unless there is an `indent`.

    A number that is not finite, which JSON does not have, becomes null.
    """
    value = plain(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        text = json.dumps(bounded(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.translate(_SEPARATORS)


def bounded(value: Any) -> Any:
    """The value with None for each number that `parse_json` would refuse: one that is not finite, or too large."""
    return mapped(value, lambda _, each: None if isinstance(each, float) and not abs(each) <= MAX_FLOAT else each)
