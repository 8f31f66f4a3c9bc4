"""One run: its folder, its data, its training, and its trained model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from seq2seq_attn.errors import UserError

CONFIG = "config.yaml"  # of a run folder

Say = Callable[[str], object]  # receives the progress messages of slow functions, one line per call


def messages(silent: bool) -> Say:
    """Prints to stderr, as the command line does, or drops what it is called with."""
    return (lambda _: None) if silent else _to_stderr


def _to_stderr(text: str) -> None:
    with suppress(OSError):  # a full disk or a closed terminal must not end a training
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning of Python, which the caller can catch or filter."""
    warnings.warn(text, stacklevel=2)


def require_run(folder: Path) -> None:
    """UserError if the folder is not a run. Defined here so that the check does not import torch."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: not a run folder (no {CONFIG}); train writes one: seq2seq-attn train --help")
