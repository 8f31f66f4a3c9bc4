"""Pairs from tables: Parquet, JSON Lines, and data sets of the Hugging Face hub, all read by the library `datasets`.

Rows are read in their order and a thousand at a time, so a table may be larger than memory.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2seq_attn.errors import FailedError, UserError, needing, one_line, shown
from seq2seq_attn.files.reading import open_bytes

_ROWS = 1000  # in memory

Names = tuple[str | tuple[str, ...], str]  # of columns: the source, which may have several, and the target


def iterate_table(paths: Sequence[Path], columns: Names) -> Iterator[tuple[str, str]]:
    """The pairs in columns of Parquet or JSON Lines files, one file after the other; which of both, its bytes tell.

    A column within another is named with a point, as in `translation.en`. Line ends within a text become blanks. The
    source may have several columns, which are joined by TABs.

    Raises:
        UserError: A file is missing or damaged, a column is missing, or a row has no text there; with its number.
    """
    for path in paths:
        with open_bytes(path) as file:
            head = file.read(64).lstrip()
        kind = "parquet" if head.startswith(b"PAR1") else "json"
        if kind == "json" and head[:1] not in b"{[":
            raise UserError(
                f"{path}: neither Parquet nor JSON Lines; write its rows as one of them, or as text with a TAB between "
                f"two columns, for `tsv`"
            )
        with _explained(str(path)):
            table = _datasets().load_dataset(kind, data_files=[str(path)], split="train", streaming=True)
            yield from _pairs(table, columns, str(path))


def iterate_dataset(name: str, subset: str | None, split: str, columns: Names) -> Iterator[tuple[str, str]]:
    """The pairs in columns of a split of a data set: of the hub, of the library's cache, or in a folder.

    Where there is no network, what was loaded before is read from the cache, `$HF_HOME`. Columns and errors are those
    of `iterate_table`.

    Raises:
        FailedError: The hub cannot be reached, and the data set is not in the cache.
    """
    with _explained(name):
        library = _datasets()
        if (Path(name) / "dataset_info.json").exists() or (Path(name) / "dataset_dict.json").exists():
            saved = library.load_from_disk(name)
            table = saved[split] if isinstance(saved, dict) else saved
        else:
            table = library.load_dataset(name, subset, split=split)
        yield from _pairs(table, columns, f"{name}, {split}")


def digest_of_dataset(name: str, subset: str | None, split: str, columns: Names) -> str:
    """The SHA-256 of the text that `iterate_dataset` reads."""
    found = hashlib.sha256()
    for source, target in iterate_dataset(name, subset, split, columns):
        found.update(f"{source}\0{target}\n".encode())
    return found.hexdigest()


def _datasets() -> Any:
    with needing("a table or a data set"):
        import datasets  # imports pandas and pyarrow for seconds
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)  # it raises what it logs as well
    return datasets


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what the library raises into one line."""
    try:
        yield
    except UserError:
        raise
    except ConnectionError as error:
        raise FailedError(
            f"{name}: {one_line(str(error))}; where there is no network, load it on another machine, and copy its "
            f"~/.cache/huggingface, or the files, to name them in `table`"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{name}: cannot be read by the library datasets: {one_line(str(error))}") from None


def _pairs(table: Any, columns: Names, name: str) -> Iterator[tuple[str, str]]:
    sources = (columns[0],) if isinstance(columns[0], str) else columns[0]
    row = 0
    for rows in table.iter(batch_size=_ROWS):
        texts = [_column(rows, each, name) for each in (*sources, columns[1])]
        for values in zip(*texts, strict=True):
            row += 1
            for column, text in zip((*sources, columns[1]), values, strict=True):
                if not isinstance(text, str):
                    raise UserError(f"{name}, row {row}: {column} is {shown(text)}, not text; leave the row out")
            *parts, target = (re.sub(r"\s*[\r\n]+\s*", " ", text) for text in values)
            if len(parts) > 1 and any("\t" in part for part in parts):
                raise UserError(f"{name}, row {row}: {shown(parts)} has a TAB, by which columns are joined; remove it")
            yield "\t".join(parts), target
    if not row:
        raise UserError(f"{name}: no row; check the file, or the split")


def _column(rows: dict[str, list[Any]], column: str, name: str) -> list[Any]:
    """The values of a column, or of a field of it."""
    root, *fields = [column] if column in rows else column.split(".")
    if root not in rows:
        raise UserError(f"{name}: no column {column!r}; it has {', '.join(rows)}")
    values = rows[root]
    for field in fields:
        if not all(isinstance(value, dict) and field in value for value in values):
            inner = next(
                (", ".join(f"{root}.{key}" for key in value) for value in values if isinstance(value, dict)), ""
            )
            raise UserError(f"{name}: no field {column!r}" + (f"; it has {inner}" if inner else ""))
        values = [value[field] for value in values]
    return values
