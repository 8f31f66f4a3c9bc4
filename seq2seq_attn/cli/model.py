"""The model that a command works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq_attn.runs.model import TrainedModel


def load_model(run: Path, plugin: list[Path] | None) -> TrainedModel:
    """The model of a run folder; the user's own scorers are imported first."""
    from seq2seq_attn.runs.model import TrainedModel
    from seq2seq_attn.runs.plugin import load_plugins

    load_plugins(plugin)
    return TrainedModel.load(run)
