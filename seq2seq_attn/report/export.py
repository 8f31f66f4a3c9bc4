"""The comparison for other programs: LaTeX tables, and the numbers of arms and groups as comma-separated values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import NamedTuple, TypeVar

from seq2seq_attn.report.columns import Column, TableCell, columns
from seq2seq_attn.report.table import AGREEMENT, breakdown_tables, breakdowns, provenance
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.results import Results

T = TypeVar("T")

HEAD = r"""% Needs \usepackage{booktabs,adjustbox}; XeLaTeX or LuaLaTeX if names are not in the Latin alphabet."""

TABLE = r"""\begin{table*}
\centering
\begin{adjustbox}{max width=\textwidth}
\begin{tabular}{l%(alignment)s}
\toprule
%(header)s \\
\midrule
%(rows)s
\bottomrule
\end{tabular}
\end{adjustbox}
\caption{%(caption)s}
\label{tab:%(label)s}
\end{table*}"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
    "[": "{[}",  # at the beginning of a row, LaTeX would take it for an option of the preceding \\
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def as_latex(results: Results) -> str:
    r"""LaTeX tables with the rules of booktabs, to be included with \input.

    One table has the main columns, one the optional columns; the breakdowns follow. Provenance is in comments.
    """
    comments = [f"% {note}" for note in provenance(results, columns(results))]
    return "\n".join([HEAD, *comments, *_latex_comparison(results), *_latex_breakdowns(results), ""])


def escape_latex(text: str) -> str:
    """The text for LaTeX: special characters escaped, a minus sign before a number, an en dash between two numbers."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<=\d)-(?=\d)", "--", re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped))


def _latex_comparison(results: Results) -> Iterator[str]:
    arm, *rest = columns(results)
    name = slug(results.experiment)
    for optional, label in ((False, name), (True, f"{name}-more")):
        shown = [column for column in rest if column.optional == optional]
        if shown:
            meanings = "; ".join(column.meaning for column in shown if column.meaning)
            yield _latex_table([arm, *shown], f"{results.experiment}. {meanings}.", label)


def _latex_breakdowns(results: Results) -> Iterator[str]:
    for table in breakdown_tables(results):
        caption = f"{results.experiment}, {table.name}. {table.meaning} {table.in_cells}".rstrip()
        yield _latex_table(table.columns, caption, f"{slug(results.experiment)}-{slug(table.name)}")


def _latex_table(shown: Sequence[Column], caption: str, label: str) -> str:
    rows = zip(*(column.cells for column in shown), strict=True)
    return TABLE % {
        "alignment": "r" * (len(shown) - 1),
        "header": " & ".join(escape_latex(column.header) for column in shown),
        "rows": "\n".join(rf"{' & '.join(map(_latex_cell, row))} \\" for row in rows),
        "caption": escape_latex(caption),
        "label": label,
    }


def _latex_cell(cell: TableCell) -> str:
    detail = rf" {{\footnotesize {escape_latex(cell.detail)}}}" if cell.detail else ""
    return escape_latex(cell.value) + detail


def as_csv(results: Results) -> str:
    """A header line, then one line per arm with unrounded numbers; an unknown value is an empty field."""
    records = as_records(results)
    return _csv_text([records[0], *(record.values() for record in records)])


def as_records(results: Results) -> list[dict[str, float | str | None]]:
    """One dictionary per arm with the fields of `as_csv`; None for an unknown value."""
    headers, values = zip(*(each for column in columns(results) for each in _csv_values(column)), strict=True)
    return [dict(zip(headers, row, strict=True)) for row in zip(*values, strict=True)]


def breakdowns_as_csv(results: Results) -> str:
    """Breakdowns, rates and link agreement: a header line, then one line per number; "" if there are none."""
    rows = list(_csv_rows(results))
    return _csv_text([_BreakdownRow._fields, *rows]) if rows else ""


class _BreakdownRow(NamedTuple):
    """One unrounded number; `low` and `high` are its 95 % interval, if it has one."""

    table: str
    group: str  # of sentences or words; for link agreement, the other arm
    arm: str
    measure: str
    value: float
    low: float | None = None
    high: float | None = None
    of: float | None = None  # the number of sentences of a group, or the denominator of a rate
    bounds: str = ""  # of the group, if each arm is grouped by its own values


def _csv_text(rows: Iterable[Iterable[object]]) -> str:
    """RFC 4180, but with line feeds alone; None is an empty field."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _csv_values(column: Column) -> Iterator[tuple[str, list[float | str | None]]]:
    """Headers and values: one pair for a text column, one per part of the cells for a numeric column."""
    most = max(len(cell.numbers) for cell in column.cells)
    if most == 0:
        yield column.header, [cell.value for cell in column.cells]
    for index, part in enumerate(column.parts[:most]):
        numbers: list[float | str | None] = [
            cell.numbers[index] if index < len(cell.numbers) else None for cell in column.cells
        ]
        yield f"{column.header} {part}".strip(), numbers


def _csv_rows(results: Results) -> Iterator[_BreakdownRow]:
    for breakdown in breakdowns(results):
        for group, arm, result in _entries(breakdown.groups, breakdown.arms):
            row = partial(_BreakdownRow, breakdown.name, group, arm, of=result.sentences, bounds=result.bounds)
            yield from (row(results.labels[key], *astuple(score)) for key, score in result.scores.items())
            if result.words is not None:
                yield row(f"source {results.unit}", result.words)
    for rates in results.where.rates:
        for group, arm, rate in _entries(rates.groups, rates.arms):
            yield _BreakdownRow(rates.name, group, arm, "rate", *astuple(rate))
    if links := results.where.agreement:
        for other, arm, value in _entries(links.arms, dict(zip(links.arms, links.f1, strict=True))):
            yield _BreakdownRow(AGREEMENT, other, arm, "F1", value)


def _entries(groups: Sequence[str], arms: Mapping[str, Sequence[T | None]]) -> Iterator[tuple[str, str, T]]:
    """The group, the arm and the value of each entry that is known."""
    for arm, values in arms.items():
        yield from ((group, arm, value) for group, value in zip(groups, values, strict=True) if value is not None)
