"""Runs of a grid: train and test what is missing, one after another or several at a time."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from seq2seq_attn.lab.evaluate import evaluate
from seq2seq_attn.lab.experiment import ArmRun
from seq2seq_attn.lab.plugin import load_plugins, loaded_plugins
from seq2seq_attn.lab.run import Say, read_metrics, refuse_other_config, train
from seq2seq_attn.lab.trained import TrainedModel
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
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _begin, (threads, loaded_plugins())) as pool:
        work = partial(complete, runs=runs, if_exists=if_exists, say=_to_stderr, bar=False)
        try:
            for number, future in enumerate(as_completed([pool.submit(work, run) for run in grid]), start=1):
                future.result()
                say(f"{number} of {len(grid)} runs done")
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            pool.shutdown(cancel_futures=True)


def complete(run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool = True) -> None:
    """Trains and tests one run, or what is missing of it."""
    folder = runs / run.folder
    metrics = read_metrics(folder) if if_exists == "resume" else {}
    if metrics:
        refuse_other_config(run.config, folder)
    if "training" not in metrics:
        say(f"{run.name}: training")
        model = train(run.config, folder, name=run.name, if_exists=if_exists, say=say, bar=bar)
    elif "test" not in metrics:
        model = TrainedModel.load(folder)
    else:
        say(f"{run.name}: done before")
        return
    scores = evaluate(model, folder, say=say)
    say(f"{run.name}: BLEU {scores['bleu']['value']:.2f} on the test set")


def _begin(threads: int, plugins: Sequence[Path]) -> None:
    """A new process knows nothing of what this one has loaded."""
    torch.set_num_threads(threads)
    load_plugins(plugins)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
