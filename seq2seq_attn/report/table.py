"""The comparison as a table with one row per arm: for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from seq2seq_attn.report.breakdown_tables import EXPLAINED, breakdown_tables
from seq2seq_attn.report.columns import Column, TableCell, columns, signed
from seq2seq_attn.results.results import ArmResult, Results

ARM_WIDTH = 22  # longer names are wrapped in the terminal
GAP = 1  # between columns, in the terminal


def notes(results: Results, shown: Iterable[Column]) -> list[str]:
    """The meaning of the columns shown, and the provenance of their numbers."""
    shown = list(shown)
    return [
        *(column.meaning for column in shown if column.meaning),
        *_correction(results),
        f"Seeds: {seeds(results.arms)}",
        *_signatures(results, shown),
        f"Made with seq2seq_attn {results.version}, commit {results.commit}, on {results.hardware}",
    ]


def markdown(results: Results) -> str:
    """The table and its notes as GitHub Markdown, with every column; then the breakdowns."""
    shown = columns(results)
    lines = [f"# {results.experiment}", "", *_markdown(shown), "", *(f"- {note}" for note in notes(results, shown))]
    tables = list(breakdown_tables(results))
    if tables:
        lines += ["", "## Where it helps", "", EXPLAINED]
    for table in tables:
        lines += ["", f"### {table.name.capitalize()}", "", table.meaning, "", *_markdown(table.columns)]
    return "\n".join([*lines, ""])


def _markdown(shown: Sequence[Column]) -> list[str]:
    return [
        _line(column.header for column in shown),
        _line(["---", *["---:"] * (len(shown) - 1)]),
        *(_line(cell.line for cell in row) for row in zip(*(column.cells for column in shown), strict=True)),
    ]


def terminal(results: Results, width: int = 120) -> RenderableType:
    """The table and its notes for a terminal of this many characters per line.

    Nothing is truncated: columns that do not fit continue in another table below. Only optional ones are left out.
    """
    parts = _pack(columns(results), width)
    shown = [column for number, part in enumerate(parts) for column in part[number > 0 :]]
    tables = [renderable for part in parts for renderable in (_rich(part), Text())]
    about = [Text(note, style="dim") for note in notes(results, shown)]
    return Group(Text(f"{results.experiment}\n", style="bold"), *tables, *about)


def _correction(results: Results) -> list[str]:
    count = sum(pair.p_holm is not None for pair in results.comparisons)
    if count < 2:
        return []
    return [f"Each p is corrected over the {count} comparisons of the table (Holm); results.json also has the raw ones"]


def _signatures(results: Results, shown: Iterable[Column]) -> list[str]:
    """Those of the columns shown. Older files have that of BLEU alone."""
    signatures = results.signatures or {"bleu": results.signature}
    headers = {column.header for column in shown}
    return [f"Signature of {signed(key)}: {each}" for key, each in signatures.items() if signed(key) in headers]


def seeds(arms: Sequence[ArmResult]) -> str:
    """Those of all arms, or arm by arm if they differ."""
    lists = {arm.name: ", ".join(map(str, arm.seeds)) for arm in arms}
    alike = len(set(lists.values())) == 1
    return lists[arms[0].name] if alike else "; ".join(f"{name}: {own}" for name, own in lists.items())


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _pack(all_columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns as few tables of at most this width, arms first in each; optional ones fill the remaining room."""
    arm, *rest = all_columns
    parts: list[list[Column]] = []

    def has_room(part: Sequence[Column], column: Column) -> bool:
        return min(arm.width, ARM_WIDTH) + sum(GAP + each.width for each in (*part, column)) <= width

    for column in sorted(rest, key=lambda column: column.optional):
        fitting = [part for part in (parts if column.optional else parts[-1:]) if has_room(part, column)]
        if fitting:
            fitting[0].append(column)
        elif not column.optional:
            parts.append([column])
    return [[arm, *(column for column in rest if column in part)] for part in parts]


def _rich(part: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, leading=1)
    for number, column in enumerate(part):
        if number == 0:
            table.add_column(column.header, width=min(column.width, ARM_WIDTH), overflow="fold")
        else:
            table.add_column(column.header, justify="right", no_wrap=True)
    for row in zip(*(column.cells for column in part), strict=True):
        table.add_row(*(_two_lines(cell) for cell in row))
    return table


def _two_lines(cell: TableCell) -> Text:
    return Text.assemble(cell.value, "\n", (cell.detail, "dim")) if cell.detail else Text(cell.value)
