"""The keys of a configuration: their types, defaults and meanings, read from its records; for editors, a JSON schema.

The meaning of a key is the comment beside its field.
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from seq2seq_attn.errors import UserError, did_you_mean, shown
from seq2seq_attn.strict.records import Strict
from seq2seq_attn.strict.tagged import Tagged


class Key(NamedTuple):
    """A key of a record."""

    path: str  # from the top, as in model.decoder.cell
    name: str  # the last part of it
    type: str
    default: str | None  # as YAML; None: it is required, or a record of its own
    meaning: str
    below: str | None  # the path of the record that it is, or None
    is_required: bool


def key_lines(record: type[Strict], place: str = "") -> list[str]:
    """One line per key at `place` and below, as in YAML: the path, the default, then type and meaning as a comment.

    UserError: there is no such key.
    """
    lines: list[str] = []
    paths: set[str] = set()
    for path, part in dict.fromkeys(records(record)):  # a record may be reached in several ways
        found = keys(path, part)
        paths.update(key.path for key in found)
        chosen = [key for key in found if key.below is None and f"{key.path}.".startswith(place and f"{place}.")]
        if chosen and kind_of(part):
            lines.append(f"# {path}, kind {kind_of(part)}")
        for key in chosen:
            about = "; ".join(filter(None, (key.type, "required" if key.is_required else "", key.meaning)))
            lines.append(f"{f'{key.path}: {key.default or str()}'.rstrip():<44}  # {about}")
    if not lines:
        hint = did_you_mean(place, paths, "seq2seq-attn train --keys lists all")
        raise UserError(f"there is no key {shown(place)} in a configuration; {hint}")
    return lines


def json_schema(record: type[Strict]) -> dict[str, Any]:
    """A JSON schema, by which editors complete and check keys: with every kind and all meanings."""
    return record.model_json_schema(schema_generator=DescribedSchema)


class DescribedSchema(GenerateJsonSchema):
    """A JSON schema with the meanings of all fields, and every kind of a tagged record."""

    _around: frozenset[type[Strict]] = frozenset()  # the bases of kinds that are being described

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        record: type[Strict] = schema["cls"]
        if issubclass(record, Tagged) and Tagged in record.__bases__:
            return self._kinds(record)
        own = super().model_schema(schema)
        meanings = _meanings(record)
        for name, value in own["properties"].items():
            value.setdefault("description", meanings.get(name, ""))
        return own if record.alone is None else {"anyOf": [own, own["properties"][record.alone]]}

    def _kinds(self, record: type[Tagged]) -> JsonSchemaValue:
        """One of the kinds, or one that is named by its file; one within itself may be anything."""
        if record in self._around:
            return {"type": "object"}
        before, self._around = self._around, self._around | {record}
        kinds = [self.generate_inner(kind.__pydantic_core_schema__) for kind in record.kinds().values()]
        self._around = before
        named = {"type": "object", "properties": {"kind": {"type": "string", "pattern": ":"}}, "required": ["kind"]}
        return {"anyOf": [*kinds, named]}


def kind_of(record: type[Strict]) -> str:
    """The `kind` that selects this record among those of its base, or nothing."""
    return str(record.model_fields["kind"].default) if issubclass(record, Tagged) else ""


def keys(path: str, record: type[Strict]) -> list[Key]:
    """The keys of a record that stands at this path."""
    meanings, found = _meanings(record), []
    for name, field in record.model_fields.items():
        parts = [part for part in _parts(field.annotation) if _described(part)]
        has_default = not parts and not field.is_required()
        own = f"{path}.{name}".lstrip(".")
        is_nested = any(issubclass(record, part) for part in parts)
        found.append(
            Key(
                path=own,
                name=name,
                type=_type(field.annotation, field.metadata),
                default=_yaml(field.get_default(call_default_factory=True)) if has_default else None,
                meaning=field.description or meanings.get(name, ""),
                below=(path if is_nested else own) if parts else None,
                is_required=field.is_required(),
            )
        )
    return found


def records(
    record: type[Strict], path: str = "", around: tuple[type[Strict], ...] = ()
) -> Iterator[tuple[str, type[Strict]]]:
    """This record and those inside it, outermost first, each with its path of keys; every kind of a tagged one.

    Where a record contains records of its own base, as an encoder of encoders does, these are not described again.
    """
    yield path, record
    around = (*around, record)
    for name, field in record.model_fields.items():
        below = f"{path}.{name}".lstrip(".")
        for part in _parts(field.annotation):
            if any(issubclass(each, part) for each in around):
                continue
            for kind in _described(part):
                yield from records(kind, below, around)


def _described(part: type[Strict]) -> list[type[Strict]]:
    """The record itself, or the kinds of a tagged one that the package has; all may be a user's own."""
    kinds: list[type[Strict]] = list(part.kinds().values()) if issubclass(part, Tagged) else [part]
    return [kind for kind in kinds if kind.__module__.startswith("seq2seq_attn.")]


def _parts(annotation: Any) -> list[type[Strict]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return [annotation]
    return [part for each in get_args(annotation) for part in _parts(each)]


def _meanings(record: type[Strict]) -> dict[str, str]:
    """What the comments beside the fields of a record and of its bases say."""
    bases = [each for each in record.__mro__ if issubclass(each, Strict) and each not in (Strict, Tagged)]
    return {name: meaning for base in reversed(bases) for name, meaning in comments(base).items()}


@cache
def comments(record: type) -> dict[str, str]:
    """The comments beside the fields that a class itself declares."""
    source = textwrap.dedent(inspect.getsource(record))
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    return {
        node.target.id: comments[node.end_lineno]
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in comments
    }


_NAMES = {"int": "whole number", "float": "number", "str": "text", "bool": "`true` or `false`", "Path": "path"}


def _type(annotation: Any, metadata: Any = ()) -> str:
    limits = [f"{word} {getattr(each, name)}" for each in metadata for name, word in _LIMITS if hasattr(each, name)]
    bounds = f" {', '.join(limits)}" if limits else ""
    parts = _parts(annotation)
    if parts:
        return "a record" + (" or `null`" if type(None) in get_args(annotation) else "")
    arguments = get_args(annotation)
    if getattr(annotation, "__metadata__", None):
        return _type(arguments[0], annotation.__metadata__)
    if str(annotation).startswith("typing.Literal"):
        return ", ".join(f"`{_yaml(each)}`" for each in arguments)
    origin = get_origin(annotation)
    if origin in (tuple, list):
        kinds = list(dict.fromkeys(_type(each) for each in arguments if each is not ...))
        return f"[{', '.join(kinds)}]" if kinds[1:] else f"list of {_PLURALS.get(kinds[0], kinds[0])}{bounds}"
    if origin is dict:
        return "mapping"
    if arguments:  # a union
        return " or ".join("`null`" if each is type(None) else _type(each) for each in arguments) + bounds
    return _NAMES.get(getattr(annotation, "__name__", ""), f"`{annotation}`") + bounds


_PLURALS = {"whole number": "whole numbers", "number": "numbers", "text": "texts"}
_LIMITS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def _yaml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_yaml(each) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
