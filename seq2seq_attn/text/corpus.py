"""A parallel corpus: lines and their translations, from two files or a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import read_lines


@dataclass(frozen=True)
class ParallelCorpus:
    """Line i of `target` translates line i of `source`; `name` says where they came from, for messages."""

    source: Sequence[str]
    target: Sequence[str]
    name: str = "corpus"

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise UserError(
                f"{self.name}: {len(self.source)} source lines and {len(self.target)} target lines; "
                f"a parallel corpus has a translation for every line"
            )

    def __len__(self) -> int:
        return len(self.source)

    def select(self, indices: Iterable[int]) -> ParallelCorpus:
        """The pairs with these indices only, in this order."""
        indices = list(indices)
        return ParallelCorpus(
            [self.source[index] for index in indices], [self.target[index] for index in indices], self.name
        )


def read_parallel(source_path: Path | str, target_path: Path | str) -> ParallelCorpus:
    """A corpus from two files, plain or gzip, line by line.

    Raises UserError for a missing or empty file, bytes that are not UTF-8, or different numbers of lines.
    """
    source, target = read_lines(source_path), read_lines(target_path)
    if len(source) != len(target):
        raise UserError(
            f"{source_path} has {len(source)} lines and {target_path} has {len(target)}; "
            f"line i of one must translate line i of the other"
        )
    return ParallelCorpus(source, target, f"{source_path} and {target_path}")


def read_tsv(path: Path | str, columns: tuple[int, int] = (0, 1)) -> ParallelCorpus:
    """A corpus from a file of tab-separated columns, plain or gzip; `columns` counts from 0: source, target.

    Raises UserError as `read_parallel`, and with the line number for a line that has too few columns.
    """
    rows = [line.split("\t") for line in read_lines(path)]
    needed = max(columns) + 1
    for number, row in enumerate(rows, start=1):
        if len(row) < needed:
            raise UserError(f"{path}, line {number}: {len(row)} tab-separated columns, at least {needed} are needed")
    source, target = columns
    return ParallelCorpus([row[source] for row in rows], [row[target] for row in rows], str(path))
