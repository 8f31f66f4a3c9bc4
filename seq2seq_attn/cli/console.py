"""Output: answers and scores go to stdout, messages and progress to stderr."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import typer

from seq2seq_attn.runs import messages

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Agreement

say = messages(silent=False)  # a warning, progress or the next step


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """In the block, SIGTERM does what Ctrl-C does, unless the caller of this program has it ignored.

    Its KeyboardInterrupt has the number of the signal as an argument.
    """

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_IGN or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def answer(found: object) -> None:
    """Print an answer to stdout: a dictionary or list as a line of JSON, anything else as text.

    What rich can show is as wide as the terminal.
    """
    if isinstance(found, (dict, list)):
        from seq2seq_attn.files.plain import to_json  # imports PyYAML, which help texts do without

        typer.echo(to_json(found))
    elif hasattr(found, "__rich__"):
        from rich.console import Console

        console = Console()
        with console.capture() as text:  # rich itself would answer a closed pipe with exit 1
            console.print(found)
        typer.echo(text.get(), nl=False)
    else:
        typer.echo(str(found))


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, advanced by calling the function that this yields; `total` is None if unknown.

    It is drawn only if stderr is a terminal and stdout is not, so that it does not interleave with the answer.
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


def rates(agreed: Agreement) -> dict[str, Any]:
    """The agreement of word links with gold links, by name of the rate, and the interval of AER if it is known."""
    ends = agreed.error_rate_interval
    return agreed.rates if ends is None else {**agreed.rates, "aer_interval": list(ends)}


def rates_line(agreed: Agreement) -> str:
    """The same rates as one line of text."""
    ends = agreed.error_rate_interval
    aer, *others = (f"{name} {rate:.4f}" for name, rate in agreed.rates.items())
    return ", ".join([aer if ends is None else f"{aer} [{ends[0]:.4f}, {ends[1]:.4f}]", *others])
