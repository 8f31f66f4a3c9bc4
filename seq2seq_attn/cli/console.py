"""What the program says: answers to stdout, remarks and progress to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def answer_entries(entries: Mapping[str, Sequence[str]]) -> None:
    """Names, and beside each what there is to say of it, as many lines as that takes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, lines in entries.items():
        table.add_row(Text(name, style="bold"), Text("\n".join(lines)))
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
