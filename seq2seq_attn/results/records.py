"""Records as JSON files, read strictly, and the names and types that they share."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from seq2seq_attn.errors import UserError
from seq2seq_attn.limits import unpacked
from seq2seq_attn.text.files import write_bytes

T = TypeVar("T")
Many = Annotated[Sequence[T], AfterValidator(tuple)]  # accepts any sequence, stores a tuple
NonEmpty = Annotated[Many[T], Field(min_length=1)]
Words = Annotated[tuple[str, ...], Field(min_length=1)]

RUNS = "runs"  # in the folder of a comparison

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)  # NaN is not valid JSON; other parsers reject it


def load_record(kind: TypeAdapter[T], path: Path, writer: str = "seq2seq-attn compare") -> T:
    """The record in a JSON file that the command `writer` writes, without type conversion: "3" is not a number.

    A file whose name ends in .gz is decompressed. UserError, in one line with the file and the key: the file is
    missing, not JSON, or contains an invalid value.
    """
    try:
        with path.open("rb") as file:
            content = (unpacked(file, str(path)) if path.suffix == ".gz" else file).read()
        return kind.validate_json(content, strict=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `{writer}` writes it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path}: damaged, cannot be decompressed; `{writer}` rewrites it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise UserError(f"{path}: {_explain(error)}; `{writer}` rewrites it") from None


def save_record(kind: TypeAdapter[T], record: T, path: Path, indent: int | None = None) -> None:
    """Writes atomically, compressed if the name ends in .gz; `load_record` reads the file."""
    content = kind.dump_json(record, indent=indent) + b"\n"
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def slug(name: str) -> str:
    """A name for use in a path: `distracted (C at every step)` becomes `distracted-c-at-every-step`."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")


def run_folder(arm: str, seed: int) -> Path:
    """The folder of a run, relative to `RUNS` in the folder of its comparison."""
    return Path(slug(arm)) / f"seed-{seed}"


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
