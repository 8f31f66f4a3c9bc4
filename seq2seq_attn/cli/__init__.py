"""The program `seq2seq-attn`: one command per task.

Answers go to stdout, everything else to stderr. The exit code is 0 for success, 1 for work that failed, and 2 for bad
usage or bad input, both reported in one line; 130 after Ctrl-C, and 143 after SIGTERM. Any other exception is a bug: it
keeps its traceback and exits with 1.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import typer

from seq2seq_attn.cli.app import app
from seq2seq_attn.cli.console import say, sigterm_interrupts
from seq2seq_attn.errors import UserError, file_of, how_to_install, one_line, shown
from seq2seq_attn.training.processes import speaks

PROGRAM = "seq2seq-attn"
COMPLETION = "_SEQ2SEQ_ATTN_COMPLETE"  # the environment variable by which a shell asks for completions

# What typer raises for a wrong command line. No public name works in all releases: it was click's and is now private.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program on these arguments, by default those of the process, and exit.

    A waiting thread of GNU's OpenMP spins for milliseconds by default. On a busy machine it then occupies a core that
    the thread it waits for needs, and training takes several times as long. A thirtieth of that keeps the speed of an
    idle machine (benchmarks/changes.md). The variable is read when torch is loaded.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        Path.home()
    except RuntimeError:  # a user without a home folder, for whom matplotlib fails; one that cannot be written is known
        os.environ["HOME"] = os.devnull
    if sys.stderr is None:  # closed: messages are lost
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # In any locale, as input is UTF-8 as well, and with the same ends of lines on any system.
            stream.reconfigure(encoding="utf-8", newline="\n")
    threading.excepthook = _say_of_thread
    with sigterm_interrupts():
        code = _run(arguments)
    if threading.current_thread() is threading.main_thread():
        # A second Ctrl-C while libraries clean up would be a traceback. What is registered last is called first.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _say_of_thread(failure: threading.ExceptHookArgs) -> None:
    """A thread of a library that cannot write its file, as TensorBoard's: one line. Anything else is a bug."""
    if isinstance(failure.exc_value, OSError):
        say(f"warning: {file_of(failure.exc_value, 'a file')}: cannot be written: {failure.exc_value.strerror}")
    else:
        threading.__excepthook__(failure)


def _run(arguments: Sequence[str] | None) -> int:
    """The exit code. `app()` itself would turn a closed pipe, and SIGTERM, into other codes."""
    try:
        _check_streams(arguments := sys.argv[1:] if arguments is None else list(arguments))
        if COMPLETION in os.environ:
            app(prog_name=PROGRAM)
        command = typer.main.get_command(app)
        with command.make_context(PROGRAM, arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except UserError as error:
        return _refuse(str(error), error.exit_code)
    except _UsageError as error:
        path = error.ctx.command_path if error.ctx else PROGRAM
        return _refuse(f"{error.format_message()} (see {path} --help)")
    except ModuleNotFoundError as error:
        hint = how_to_install(error)
        if hint is None:
            raise
        return _refuse(f"this command needs {hint}")
    except OSError as error:  # of stdout, whose device may be full, or of a file
        _discard_stdout()
        if is_closed_pipe(error):
            return 141  # as a program has that the signal SIGPIPE ended
        return _refuse(f"{file_of(error, 'stdout')}: {error.strerror or error}")
    except KeyboardInterrupt as error:
        return 128 + (error.args[0] if error.args else signal.SIGINT)  # as a shell reports the signal
    except (MemoryError, RuntimeError) as error:
        if not _NO_MEMORY.search(str(error) or "MemoryError"):
            raise
        return _refuse("out of memory: give smaller sizes, shorter sentences or smaller batches")
    return 0


def is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of stdout has closed it, as `head` does. Windows says so by EINVAL, and names no file."""
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EINVAL and error.filename is None)


# torch's allocators raise RuntimeError. It is recognized by its text: to name its class would import torch.
_NO_MEMORY = re.compile("allocate memory|out of memory|MemoryError|Storage size calculation overflowed")


def _check_streams(arguments: Sequence[str]) -> None:
    """UserError if there is no stdout, or an argument is not text."""
    if sys.stdout is None:
        raise UserError("stdout is closed, so there is nowhere to print the answer; redirect it, as to a file")
    for argument in arguments:
        if "\0" in argument or (not argument.isascii() and re.search("[\ud800-\udfff]", argument)):
            raise UserError(f"argument {shown(argument)}: not UTF-8, or with a NUL; rename what it names")


def _discard_stdout() -> None:
    """Prevents Python from writing the rest at exit, which would fail again and print a traceback."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str, code: int = 2) -> int:
    if speaks():
        say(f"{PROGRAM}: {one_line(message)}")
    return code
