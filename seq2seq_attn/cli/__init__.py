"""The program `seq2seq-attn`: one command per task.

Answers go to stdout, everything else to stderr. The exit code is 0 for success, 1 for work that failed, and 2 for bad
usage or bad input, both reported in one line; 130 after Ctrl-C, and 143 after SIGTERM. Any other exception is a bug: it
keeps its traceback and exits with 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

import typer

from seq2seq_attn.cli.app import app
from seq2seq_attn.cli.console import Interruption, say
from seq2seq_attn.errors import UserError

PROGRAM = "seq2seq-attn"

# What typer raises for a wrong command line. No public name works in all releases: it was click's and is now private.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program on these arguments, by default those of the process, and exit.

    A waiting thread of GNU's OpenMP spins for milliseconds by default. On a busy machine it then occupies a core that
    the thread it waits for needs, and training takes several times as long. A thirtieth of that keeps the speed of an
    idle machine (benchmarks/README.md). The variable is read when torch is loaded.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # in any locale: input is UTF-8 as well
    with Interruption.heeding_sigterm():
        sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code: Any = app(arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _refuse(str(error), error.exit_code)
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else PROGRAM
        return _refuse(f"{error.format_message()} (see {command} --help)")
    except BrokenPipeError:
        # The reader of stdout has closed the pipe. Without this, Python would flush stdout at exit and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return Interruption.exit_code()
    # typer turns KeyboardInterrupt into 130, whichever signal raised it.
    return Interruption.exit_code() if code == 130 else code or 0


def _refuse(message: str, code: int = 2) -> int:
    say(f"{PROGRAM}: {' '.join(message.split())}")
    return code
