"""The comparison as comma-separated values, for a spreadsheet or a data frame: every number, not rounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from seq2seq_attn.report.column import Column
from seq2seq_attn.report.columns import columns
from seq2seq_attn.results.results import Results

Values = tuple[str, list[float | str]]  # a header, and what stands below it


def as_csv(results: Results) -> str:
    """A line an arm, under a line of headers; an empty field where nothing is known."""
    headers, values = zip(*(each for column in columns(results) for each in _values(column)), strict=True)
    return csv_text([headers, *zip(*values, strict=True)])


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """A line a row, None as an empty field. RFC 4180, but for its CR."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _values(column: Column) -> Iterator[Values]:
    """A column of text as it is; of numbers, one for each part that any cell has."""
    most = max(len(cell.numbers) for cell in column.cells)
    if most == 0:
        yield column.header, [cell.value for cell in column.cells]
    for index, part in enumerate(column.parts[:most]):
        numbers = [cell.numbers[index] if index < len(cell.numbers) else "" for cell in column.cells]
        yield f"{column.header} {part}".strip(), numbers
