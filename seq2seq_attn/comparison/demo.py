"""The demo: the ablation on the embedded corpus, in minutes."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.complete import IfDone
from seq2seq_attn.comparison.experiment import Experiment, Grid, make_grid
from seq2seq_attn.config import load, merge
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import Say
from seq2seq_attn.text.synthetic import make

CORPUS = "tom-and-jerry"
# Shows that it runs, no more.
QUICK: dict[str, Any] = {"data": {"max_length": 12}, "training": {"max_epochs": 1, "validate_every": 1}}


def demo(
    output: Path,
    quick: bool = False,
    say: Say = lambda _: None,
    if_exists: IfDone = "resume",
    command: str = "seq2seq-attn demo",
) -> Results:
    """Trains and compares the four arms of `demo.yaml`; results and run folders go into `output`.

    An interrupted demo goes on where it stopped; a finished one shows its results again.
    """
    return compare(
        demo_grid(output, quick),
        output / "runs",
        output,
        if_exists=if_exists,
        jobs=os.cpu_count() or 1,
        command=command,
        say=say,
    )


def demo_grid(output: Path, quick: bool = False) -> Grid:
    """The runs of the demo; the corpus is made in `output` where there is no checkout to take it from."""
    with as_file(files(__package__) / "demo.yaml") as path:
        experiment = load(Experiment, path)
    if isinstance(experiment.base, Path):
        raise UserError("demo.yaml holds its base itself")
    base = merge(experiment.base, {"data": _paths(experiment.base["data"], _corpus(output))})
    return make_grid(experiment, merge(base, QUICK) if quick else base)


def _corpus(output: Path) -> Path:
    """The embedded corpus of the checkout; where there is none, the same bytes made anew."""
    committed = Path(__file__).resolve().parents[2] / "data" / CORPUS
    if committed.is_dir():
        return committed
    made = output / "data" / CORPUS
    return made if (made / "test.align").exists() else make(CORPUS, made)


def _paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data section with each file of the corpus taken from `folder`."""
    return {
        key: _paths(value, folder) if isinstance(value, dict) else str(folder / Path(value).name)
        for key, value in values.items()
    }
