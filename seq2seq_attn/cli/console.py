"""What the program says: answers to stdout, remarks and progress to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer


def say(text: str) -> None:
    """A remark: a warning, what is being done, what to do next."""
    typer.echo(text, err=True)


def answer(text: str) -> None:
    """A line of the answer."""
    typer.echo(text)


def answer_json(value: Any) -> None:
    """A line of the answer for a program to read."""
    answer(json.dumps(value, ensure_ascii=False))


def answer_table(headers: list[str], rows: list[list[str]]) -> None:
    """A table without cut cells: they are folded to the width of the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with what has been done since the last call; `total` None is not known.

    A bar on stderr, drawn only where someone can see it and the answer does not run across it.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        identity = bar.add_task(task, total=total)
        yield lambda done: bar.advance(identity, done)
