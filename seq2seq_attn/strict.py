"""Strict configuration records: read from YAML, overridden by `key.path=value`, checked once, written back.

pydantic finds mistakes but reports them in terms of its own classes, which no user has written. Here a mistake becomes
one line: file, line, key, value, what is expected there and the closest valid name.
"""

from __future__ import annotations

import difflib
import inspect
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.plain import MAX_DEPTH, NotPlainError, YamlSyntaxError, compose_yaml, parse_yaml

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every random generator takes
Size = Annotated[int, Field(ge=1, le=1_000_000)]  # of a layer: the product of two still fits into 64 bits
Layers = Annotated[int, Field(ge=1, le=256)]  # building thousands of modules takes minutes


class Strict(BaseModel):
    """Base of all configuration records: typed, immutable, and an unknown key is an error.

    Numbers are finite, and true and false are no numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_number(cls, value: Any, info: ValidationInfo) -> Any:
        return checked_number(value, cls.model_fields[str(info.field_name)].annotation)

    @classmethod
    def record_for(cls, values: Any) -> type[Strict]:
        """The class that validates these values; another than this one where their `kind` selects a subclass."""
        return cls


def checked_number(value: Any, annotation: Any) -> Any:
    """The value itself; ValueError for one that pydantic would convert to a number, or that no computation takes.

    These are true and false, which Python counts as 1 and 0, and whole numbers of more than 64 bits. Entries of lists
    are checked as well.
    """
    kinds = set(_members(annotation))
    if isinstance(value, bool) and kinds & {int, float} and bool not in kinds:
        raise ValueError("a number is wanted")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("a number below 2^63 is wanted")
    if isinstance(value, (list, tuple)):
        for each in value:
            checked_number(each, annotation)
    return value


def _members(annotation: Any) -> Iterator[type]:
    """The types that an annotation is made of: int and None of `int | None`, float of `tuple[float, float]`."""
    inner = get_args(annotation)
    if inner:
        return chain.from_iterable(map(_members, inner))
    return iter((annotation,) if isinstance(annotation, type) else ())


class Tagged(Strict, ABC):
    """A record of one of several kinds: its key `kind` selects the subclass, which adds the options of its kind.

    A direct subclass is the base of a discriminated union that stays open: it declares `kind: str` with the default
    kind, and every concrete subclass below it joins the union when it is defined, with its own
    `kind: Literal["name"] = "name"`. So a user's own module can add one. Validating the base returns an instance of
    the subclass. In another record, annotate such a field as `SerializeAsAny[Base]`, so that the options of the kind
    are written as well.

    A class may be defined again in its own module (a reloaded file, a notebook cell run twice); the same kind from
    another module is a TypeError.
    """

    obsolete: ClassVar[Mapping[str, Any]] = {}  # keys that earlier versions wrote for every kind: ignored at this value
    _kinds: ClassVar[dict[str, type[Tagged]]]

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls._kinds = {}
        elif not inspect.isabstract(cls):
            kind = cls.model_fields["kind"].default
            known = cls._kinds.get(kind)
            if known is not None and known.__module__ != cls.__module__:
                raise TypeError(
                    f"kind={kind!r} exists twice: {known.__module__}.{known.__name__} and "
                    f"{cls.__module__}.{cls.__name__}; give one of them another kind"
                )
            cls._kinds[kind] = cls

    @classmethod
    def kinds(cls) -> dict[str, type[Tagged]]:
        """The concrete records by kind, in alphabetical order; a copy."""
        return dict(sorted(cls._kinds.items()))

    @classmethod
    def record_for(cls, values: Any) -> type[Tagged]:
        default = cls.model_fields["kind"].default
        kind = values.get("kind", default) if isinstance(values, Mapping) else default
        record = cls._kinds.get(kind) if isinstance(kind, str) else None
        return record if record is not None and issubclass(record, cls) else cls

    @model_validator(mode="wrap")
    @classmethod
    def _validate_by_kind(cls, values: Any, handler: ModelWrapValidatorHandler[Tagged]) -> Tagged:
        if not isinstance(values, Mapping):
            return handler(values)
        record = cls.record_for(values)
        if record is not cls:
            return record.model_validate(values)
        return handler({key: value for key, value in values.items() if not cls._is_ignored(key, value)})

    @classmethod
    def _is_ignored(cls, key: Any, value: Any) -> bool:
        """Whether to drop this key; ValueError if it is an option of another kind."""
        if key in cls.model_fields or Tagged in cls.__bases__:
            return False
        if key in cls.obsolete and cls.obsolete[key] == value:
            return True
        others = [kind for kind, record in cls.kinds().items() if key in record.model_fields]
        if others:
            own = cls.model_fields["kind"].default
            raise ValueError(f"{key} is an option of kind={' and '.join(others)}, not of kind={own}; leave it out")
        return False

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in cls._kinds:
            near = difflib.get_close_matches(kind, cls._kinds, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(cls.kinds())}"
            raise ValueError(f"there is no such kind; {hint} (load one of your own with --plugin FILE)")
        return kind


class ConfigError(UserError):
    """A mistake in the values of a record, at these keys."""

    def __init__(self, message: str, keys: tuple[str, ...]) -> None:
        super().__init__(message)
        self.keys = keys


Record = TypeVar("Record", bound=Strict)
Parsed = TypeVar("Parsed")
Override = str | tuple[str, Any]  # `key.path=value`, as typed, or `key.path` and a value


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    try:
        values = parse_yaml(text)
    except NotPlainError as error:
        line = f":{error.line}" if error.line else ""
        what = "not YAML" if isinstance(error, YamlSyntaxError) else "cannot be used"
        raise UserError(f"{path}{line}: {what}: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: a configuration is a mapping of keys to values, got {type(values).__name__}")
    return values


def load(record: type[Record], path: Path, overrides: Iterable[str] = ()) -> Record:
    """A record from a YAML file, with `key.path=value` overrides.

    Raises UserError, in one line, for the first mistake: with file and line, or as one of the command line if it comes
    from an override.
    """
    return parse_values(record, read_yaml(path), list(overrides), path)


def parse_values(
    record: type[Record], values: Mapping[str, Any], overrides: Sequence[Override], path: Path | None = None
) -> Record:
    """As `load`, for values that were read from a file or given in Python."""
    return parse_overridden(
        overrides, lambda given, origin: parse(record, override(values, given), path if origin else None)
    )


def parse_overridden(overrides: Sequence[Override], parse: Callable[[Sequence[Override], bool], Parsed]) -> Parsed:
    """What `parse` makes of the overrides; its ConfigError is blamed on the command line if an override causes it.

    Overrides that are no text were given in Python.

    `parse(overrides, with_origin)` is also called without overrides, to find that out. It names the origin of the
    values, such as their file, in its errors only if `with_origin` is true.
    """
    try:
        return parse(overrides, False)
    except ConfigError as error:
        given = [tuple(overridden_key(each).split(".")) for each in overrides]
        if any(keys[: len(error.keys)] == error.keys[: len(keys)] for keys in given):
            try:
                parse((), False)
            except ConfigError as without:
                if str(without) == str(error):
                    return parse(overrides, True)
            place = "command line" if isinstance(overrides[0], str) else "override"
            raise UserError(f"{place}: {error}") from None
    return parse(overrides, True)  # raises the error with the file


def parse(record: type[Record], values: Mapping[str, Any], path: Path | None = None) -> Record:
    """A record from plain values. Raises ConfigError, in one line, for the first mistake."""
    try:
        return record.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(record, error, values, path), _place(error.errors()[0], values)) from None


def dump(record: Strict | Mapping[str, Any]) -> str:
    """The record as YAML, defaults included; `load` reads it back to an equal record. Plain values stay as they are."""
    values = record.model_dump(mode="json") if isinstance(record, Strict) else dict(record)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def override(values: Mapping[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """The values with overrides applied: `key.path=value`, or `key.path` and a value.

    The former is YAML, so `[1, 2]`, `true` and `null` work.
    """
    result = dict(values)
    for each in overrides:
        key, value = each if isinstance(each, tuple) else _parse_override(each)
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
    "less_than": "a number less than {lt:,.15g}",
    "less_than_equal": "a number of at most {le:,.15g}",
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
        known = ", ".join(_keys_at(record, keys[:-1], values))
        name = ".".join([*keys, *_single_keys(first["input"])])
        return f"{place}unknown key {shown(name)}{_nearest_path(name, record, values)}; known here: {known}"
    if first["type"] == "missing" and keys[-1] == first["loc"][-1]:
        return f"{place}{name} is missing and has no default"
    subject = f"{name}{_shown(first['input'])}: " if name else ""  # none for a rule about the whole record
    rule = wanted([each for each in errors if _place(each, values) == keys])
    return f"{place}{subject}{rule}{_way_out(record, first, keys, values)}"


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
    return f" = {'null' if value is None else shown(value)}"


def _way_out(record: type[Strict], error: ErrorDetails, keys: tuple[str, ...], values: Any) -> str:
    """The closest valid name, or the keys of the record that is expected."""
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
    if len(name) > _COMPARED:
        return ""
    depth = name.count(".") + 1

    def likeness(path: str) -> float:
        keys = path.split(".")
        if _ratio(name.split(".")[-1], keys[-1]) < _ALIKE:
            return 0.0
        return max(_ratio(name, path), _ratio(name, ".".join(keys[-depth:])))

    scores = {path: likeness(path) for path in _paths(record, values)}
    best = max(scores.values(), default=0.0)
    near = [path for path, score in scores.items() if score == best >= _ALIKE]
    near = [repr(path) for path in near if path.count(".") == min(each.count(".") for each in near)]
    return f" (did you mean {' or '.join(near)}?)" if 0 < len(near) <= 3 else ""


_ALIKE = 0.6  # as difflib's default cutoff
_COMPARED = 200  # characters: difflib takes quadratic time, and no name is as long


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _nearest(name: str, known: Iterable[str]) -> str:
    name = name[:_COMPARED]
    near = difflib.get_close_matches(name, [k for k in known if k], n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _line(path: Path, keys: tuple[str, ...]) -> str:
    """`:12`, the line in a YAML file of the longest prefix of these keys that it contains; "" if none."""
    node, line = compose_yaml(path.read_text(encoding="utf-8")), None
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
