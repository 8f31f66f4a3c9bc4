"""Runs of a grid: train and test what is missing, one after another or several at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from seq2seq_attn.analysis.evaluate import evaluate
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.comparison.workers import in_processes
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import CACHE_FOLDER
from seq2seq_attn.runs.folder import read_metrics, refuse_other_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.training.fit import Interrupted

IfDone = Literal["resume", "overwrite"]


def complete_all(grid: Sequence[ArmRun], runs: Path, if_exists: IfDone, jobs: int, say: Say) -> None:
    """Every run of the grid, trained and tested.

    The models here are small: two trainings with one thread each are done sooner than one after the other with two,
    which would wait for each other in every operation.
    """
    jobs = min(jobs, len(grid))
    if jobs <= 1:
        for number, run in enumerate(grid, start=1):
            complete(run, runs, if_exists, lambda text, n=number: say(f"[{n}/{len(grid)}] {text}"))  # type: ignore[misc]
        return
    work = partial(complete, runs=runs, if_exists=if_exists, say=_to_stderr, bar=False)
    try:
        for number, _ in enumerate(in_processes(work, grid, jobs), start=1):
            say(f"{number} of {len(grid)} runs done")
    except KeyboardInterrupt:
        raise Interrupted from None


def complete(run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool = True) -> None:
    """Trains and tests one run, or what is missing of it."""
    folder = runs / run.folder
    metrics = read_metrics(folder) if if_exists == "resume" else {}
    if metrics:
        refuse_other_config(run.config, folder)
    if "training" not in metrics:
        say(f"{run.name}: training")
        cache = runs / CACHE_FOLDER
        model = train(run.config, folder, name=run.name, if_exists=if_exists, say=say, bar=bar, cache=cache)
    elif "test" not in metrics:
        model = TrainedModel.load(folder)
    else:
        say(f"{run.name}: done before")
        return
    scores = evaluate(model, folder, say=say)
    say(f"{run.name}: BLEU {scores['bleu']['value']:.2f} on the test set")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
