"""Text in memory as the data of a run: written beside it, where it can be resumed, verified and trained again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seq2seq_attn.corpora.corpus import refuse_no_text
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes, write_new


class TextsBeside:
    """The texts in a section `data`, and their files in OUTPUT.data, which stand in their place."""

    def __init__(self, output: Path) -> None:
        self.folder = output.with_name(f"{output.name}.data")
        self.contents: dict[Path, bytes] = {}

    def replaced(self, values: Any, name: str) -> Any:
        """The values, with a path in place of each source or target that is lines and not a path, or several `Path`s.

        UserError: a line is not text, or is more than one.
        """
        if isinstance(values, Mapping):
            return {
                key: self._path(value, f"{name}.{key}".lstrip("."))
                if key in ("source", "target") and not _are_paths(value)
                else self.replaced(value, f"{name}.{key}".lstrip("."))
                for key, value in values.items()
            }
        if isinstance(values, (list, tuple)):
            return [self.replaced(each, f"{name}.{number}") for number, each in enumerate(values)]
        return values

    def _path(self, lines: Iterable[Any], name: str) -> Path:
        lines = list(lines)
        refuse_no_text(lines, f"data.{name}, line", 1)
        for number, line in enumerate(lines, start=1):
            if "\n" in line or "\r" in line:
                raise UserError(f"data.{name}, line {number}: has a line break; a sentence is one line, so replace it")
        path = self.folder / f"{name}.txt"
        self.contents[path] = "".join(f"{line}\n" for line in lines).encode()
        return path

    def write(self, *, overwrite: bool) -> None:
        """Writes the files. UserError unless `overwrite`: one exists with another content."""
        if not overwrite:
            write_new(self.contents)
            return
        for path, content in self.contents.items():
            write_bytes(path, content)


def _are_paths(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and value and all(isinstance(each, Path) for each in value)
    return isinstance(value, (str, Path, type(None))) or bool(several)
