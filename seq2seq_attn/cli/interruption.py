"""Ctrl-C during work that can be continued."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from seq2seq_attn.cli.console import say


@contextmanager
def resumable(kept: str, *more: str) -> Iterator[None]:
    """Ctrl-C inside says what is kept and gives the command that goes on: this one with `more`; then exit 130."""
    from seq2seq_attn.training.fit import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        say(f"interrupted; {kept}; continue with:\n  {this_command(*more)}")
        raise typer.Exit(130) from None


def this_command(*more: str) -> str:
    """The command line of this process for a shell, with more arguments, and without what would start anew."""
    return shlex.join([*_program(), *_arguments(*more), *more])


def portable_command() -> str:
    """The same as it reads where the program is installed: for a report, which others read."""
    return shlex.join(["seq2seq-attn", *_arguments()])


def _arguments(*but: str) -> list[str]:
    return [argument for argument in sys.argv[1:] if argument not in ("--overwrite", *but)]


def _program() -> list[str]:
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return [sys.executable, "-m", "seq2seq_attn"]
    found = shutil.which(path.name)
    return [path.name if found and path.samefile(found) else sys.argv[0]]
