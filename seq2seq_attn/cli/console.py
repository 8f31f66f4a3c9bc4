"""Output: answers and scores go to stdout, messages and progress to stderr."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Agreement


class ClosedPipeError(Exception):
    """The reader of stdout has closed the pipe, as `head` does; typer would turn a BrokenPipeError into exit 1."""


@contextmanager
def to_stdout() -> Iterator[None]:
    """The block prints to stdout; ClosedPipeError if its reader has closed it."""
    try:
        yield
    except OSError as error:
        if not is_closed_pipe(error):
            raise
        raise ClosedPipeError from None


def is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of a pipe has closed it. Windows says so by EINVAL, and names no file."""
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EINVAL and error.filename is None)


def say(text: str) -> None:
    """Print a message to stderr: a warning, progress or the next step. Where stderr cannot be written, nothing."""
    with suppress(OSError):
        typer.echo(text, err=True)


class Interruption:
    """The signal that ends this process, SIGINT or SIGTERM, which both raise KeyboardInterrupt."""

    received: int = signal.SIGINT

    @classmethod
    @contextmanager
    def heeding_sigterm(cls) -> Iterator[None]:
        """In the block, SIGTERM does what Ctrl-C does, unless the caller of this program has it ignored."""

        def interrupt(number: int, _: object) -> None:
            cls.received = number
            raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGTERM)
        if before is signal.SIG_IGN or current_thread() is not main_thread():
            yield
            return
        cls.received = signal.SIGINT
        signal.signal(signal.SIGTERM, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @classmethod
    def exit_code(cls) -> int:
        """As a shell reports the signal: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + cls.received


def answer(text: str) -> None:
    """Print a line of the answer to stdout."""
    with to_stdout():
        typer.echo(text)


def answer_json(value: Any) -> None:
    """Print a line of the answer as JSON."""
    from seq2seq_attn.files.plain import to_json  # imports PyYAML, which help texts do without

    answer(to_json(value))


def answer_rich(shown: Any, width: int | None = None) -> None:
    """Print what rich can show, as wide as the terminal; `width` columns into a file."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=width)
    with console.capture() as text:  # rich itself would answer a closed pipe with exit 1
        console.print(shown)
    with to_stdout():
        typer.echo(text.get(), nl=False)


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
    interval = agreed.error_rate_interval
    return {
        "aer": agreed.error_rate,
        **({} if interval is None else {"aer_interval": list(interval)}),
        "precision": agreed.precision,
        "recall": agreed.recall,
        "f1": agreed.f1,
    }


def rates_line(agreed: Agreement) -> str:
    """The same rates as one line of text."""
    ends = agreed.error_rate_interval
    interval = "" if ends is None else f" [{ends[0]:.4f}, {ends[1]:.4f}]"
    rest = f"precision {agreed.precision:.4f}, recall {agreed.recall:.4f}, f1 {agreed.f1:.4f}"
    return f"aer {agreed.error_rate:.4f}{interval}, {rest}"
