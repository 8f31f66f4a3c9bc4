"""One run: its folder, its data, its training, and its trained model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seq2seq_attn.errors import UserError

CONFIG = "config.yaml"  # of a run folder

Say = Callable[[str], object]  # receives the progress messages of slow functions, one line per call


def require_run(folder: Path) -> None:
    """UserError if the folder is not a run. Defined here so that the check does not import torch."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: not a run folder (no {CONFIG}); train writes one: seq2seq-attn train --help")
