"""Typed records as JSON files, read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import write_bytes

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)  # NaN is not JSON: other readers would refuse the file


def load(kind: TypeAdapter[T], path: Path, writer: str = "seq2seq-attn compare") -> T:
    """The record in a JSON file that `writer` writes, with nothing converted: "3" is no number.

    UserError in one line, with the file and the key: missing, not JSON, or the first thing that does not fit.
    """
    try:
        return kind.validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `{writer}` writes it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise UserError(f"{path}: {_explain(error)}; `{writer}` writes it anew") from None


def save(kind: TypeAdapter[T], record: T, path: Path) -> None:
    """Write what `load` reads, whole or not at all."""
    write_bytes(path, kind.dump_json(record) + b"\n")


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    place = f"{key}: " if key else ""
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{place}the key is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"{place}no such key is known"
    message = first["msg"].removeprefix("Value error, ")
    value = repr(first["input"])
    return f"{place}{message}" + (f", got {value}" if len(value) <= 40 else "")
