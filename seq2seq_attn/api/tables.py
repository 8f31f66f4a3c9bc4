"""Sequences of records, as text in a terminal and as HTML in a notebook, readable in light and dark themes.

`to_records()` of each returns plain dictionaries for `pandas.DataFrame`.
"""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

WIDTH = 120  # of text that is not for a terminal, in columns
SHOWN_ROWS = 20  # of a table in a notebook

_Record = TypeVar("_Record")


class Answers(tuple[_Record, ...], Generic[_Record]):
    """An immutable sequence of records."""

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per row of a table: `pandas.DataFrame(answers.to_records())`."""
        return [each._asdict() for each in self]  # type: ignore[attr-defined]  # unless overridden, NamedTuples

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"

    def _repr_html_(self) -> str:
        rows = self.to_records()
        more = f"{len(rows) - SHOWN_ROWS:,} more rows: to_records()" if len(rows) > SHOWN_ROWS else ""
        return html_records(rows[:SHOWN_ROWS], more)


class Listing(Answers[_Record]):
    """Records that are printed as names with lines of description."""

    def lines(self) -> Mapping[str, Sequence[str]]:
        """The description of each record, by its name."""
        raise NotImplementedError

    def __rich__(self) -> RenderableType:
        return described(self.lines())

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return html_records(self.to_records())


def described(entries: Mapping[str, Sequence[str]]) -> Table:
    """Names in one column, the lines of their descriptions in another."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, lines in entries.items():
        table.add_row(Text(name, style="bold"), Text("\n".join(lines)))
    return table


def as_text(shown: Any, width: int = WIDTH) -> str:
    """What rich prints, without colors and without blanks at the ends of lines."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=width, color_system=None, force_jupyter=False).print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


# Neither a text color nor an opaque background is set, so that both follow the theme of the page.
TABLE = "border-collapse:collapse;color:inherit;background:none;margin:0.5em 0"
CELL = "border:1px solid rgba(128,128,128,0.35);padding:0.15em 0.4em;color:inherit;font-weight:normal"


def html_table(headers: Sequence[str], rows: Sequence[Sequence[object]], below: str = "") -> str:
    """An HTML table with inline styles: numbers right-aligned, text left-aligned, None blank."""
    head = "".join(f'<th style="{CELL};font-weight:bold;text-align:left">{html.escape(name)}</th>' for name in headers)
    body = "".join(f'<tr style="background:none">{"".join(map(_cell, row))}</tr>' for row in rows)
    note = f'<div style="opacity:0.75">{html.escape(below)}</div>' if below else ""
    head_row = f'<tr style="background:none">{head}</tr>' if headers else ""
    return f'<table style="{TABLE}">{head_row}{body}</table>{note}'


def html_records(records: Sequence[Mapping[str, object]], below: str = "") -> str:
    """An HTML table with a row for each record, under the keys that all of them have."""
    return html_table(list(records[0]) if records else [], [list(each.values()) for each in records], below)


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
    side = "right" if isinstance(value, (int, float)) else "left"
    return f'<td style="{CELL};text-align:{side}">{html.escape(text)}</td>'
