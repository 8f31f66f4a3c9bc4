"""JSON files as typed records: the one way in which this package reads a file of JSON, and checks all of it.

A file that was damaged, edited or written by another program is an error that names the file and the place. Whoever has
a record may rely on its types and limits.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.plain import parse_json
from seq2seq_attn.files.reading import read_bytes
from seq2seq_attn.files.writing import write_bytes

T = TypeVar("T")
Many = Annotated[Sequence[T], AfterValidator(tuple)]  # accepts any sequence, stores a tuple
NonEmpty = Annotated[Many[T], Field(min_length=1)]
Words = Annotated[tuple[str, ...], Field(min_length=1)]

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)  # NaN is not valid JSON; other parsers reject it
OPEN = ConfigDict(extra="allow", allow_inf_nan=False)  # of a record to which others add keys


def load_record(kind: TypeAdapter[T], path: Path, remedy: str = "`seq2seq-attn compare` writes it") -> T:
    """The record in a JSON file, which may be compressed, without type conversion: "3" is not a number.

    UserError, in one line with the file, the key and the remedy: the file is missing, a folder, not JSON, beyond the
    limits of `parse_json`, or contains an invalid value.
    """
    return _load(kind, path, remedy)[1]


def load_values(kind: TypeAdapter[Any], path: Path, remedy: str) -> dict[str, Any]:
    """As `load_record`, but the plain values of the file, for a record that others may add keys to."""
    values: dict[str, Any] = _load(kind, path, remedy)[0]
    return values


def _load(kind: TypeAdapter[T], path: Path, remedy: str) -> tuple[Any, T]:
    if not path.exists():
        raise UserError(f"{path}: no such file; {remedy}")
    if path.is_dir():
        raise UserError(f"{path}: a folder, not a file; {remedy}")
    content = read_bytes(path)
    try:
        return parse_json(content), kind.validate_json(content, strict=True)
    except ValidationError as error:  # a ValueError, too
        raise UserError(f"{path}: {explained_record(error)}; {remedy}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}; {remedy}") from None


def save_record(
    kind: TypeAdapter[T], record: T, path: Path, indent: int | None = None, exclude_defaults: bool = False
) -> None:
    """Writes atomically, compressed if the name ends in .gz; `load_record` reads the file.

    With `exclude_defaults`, fields that have their default are left out.
    """
    content = kind.dump_json(record, indent=indent, exclude_defaults=exclude_defaults) + b"\n"
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def explained_record(error: ValidationError) -> str:
    """The first mistake in the values of a record, and its place."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    place = f"{key}: " if key else ""
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{place}the key is missing"
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{place}no such key is known"
    return f"{place}{first['msg'].removeprefix('Value error, ')}, got {shown(first['input'])}"
