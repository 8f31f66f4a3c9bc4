"""The program `seq2seq-attn`, one command a capability; it is told from its bodies' imports down what each needs.

Commands import what is heavy (torch, lightning, sacrebleu, matplotlib) inside their bodies, so that `--help` answers
at once. Answers go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 bad usage or bad input, said
in one line, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn

import typer

from seq2seq_attn.cli.app import app
from seq2seq_attn.cli.console import say
from seq2seq_attn.errors import UserError

# What typer raises for a wrong command line: the base is click's own in older releases, and private in newer ones.
_UsageError = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program on these arguments (those of the process unless given), and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # Chinese, whatever the locale
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, prog_name="seq2seq-attn", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _refuse(str(error))
    except BrokenPipeError:
        _discard_output()
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        if isinstance(error, _UsageError):
            return _refuse(_usage(error))
        raise  # a defect of the program: Python prints the traceback and exits with 1
    return code if isinstance(code, int) else 0
