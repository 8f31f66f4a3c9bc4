"""Which runs of an experiment are missing, and where they are trained: in this process, or several in processes.

The processes are ended with this one, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Literal, TypeVar

import torch

from seq2seq_attn.analysis.scoring import evaluate
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.ops.host import keep_freed_memory
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import CACHE_FOLDER
from seq2seq_attn.runs.folder import read_metrics, refuse_other_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.plugin import load_plugins, loaded_plugins
from seq2seq_attn.runs.train import train
from seq2seq_attn.training.fit import Interrupted

IfDone = Literal["resume", "overwrite"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def complete_all(
    grid: Sequence[ArmRun], runs: Path, if_exists: IfDone, jobs: int, say: Say, bar: bool | None = True
) -> None:
    """Trains and tests every run of the grid, `jobs` at a time; finished ones are kept unless they are overwritten.

    The models are small: two runs in parallel with one thread each finish sooner than one after the other with two
    threads, which would have to synchronise in every operation.
    """
    jobs = min(jobs, len(grid))
    if jobs <= 1:
        for number, run in enumerate(grid, start=1):
            complete(run, runs, if_exists, lambda text, n=number: say(f"[{n}/{len(grid)}] {text}"), bar)  # type: ignore[misc]
        return
    work = partial(
        complete, runs=runs, if_exists=if_exists, say=_nothing if bar is None else _to_stderr, bar=bar and False
    )
    try:
        for number, _ in enumerate(in_processes(work, grid, jobs), start=1):
            say(f"{number} of {len(grid)} runs done")
    except KeyboardInterrupt:
        raise Interrupted from None


def complete(run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool | None = True) -> None:
    """Trains and tests one run, or does what is missing of the two."""
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


def _nothing(text: str) -> None:
    """For a silent comparison: a function of this file, which other processes can find."""


def in_processes(work: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int) -> Iterator[_Result]:
    """The results of `work`, in the order in which they are finished; `jobs` items are processed in parallel.

    The first exception, in a process or here (Ctrl-C), stops all processes at once and is raised.
    """
    with _process_pool(jobs) as pool:
        for future in as_completed(_submit(pool, work, items)):
            yield future.result()


@contextmanager
def _process_pool(jobs: int) -> Iterator[Executor]:
    threads = max(1, (os.cpu_count() or 1) // jobs)
    others = multiprocessing.active_children()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _initialise_process, (threads, loaded_plugins())) as pool:
        try:
            yield pool
        except BaseException:
            # The pool's own shutdown waits for running items, and for one more that it has fetched in advance.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise


def _submit(pool: Executor, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[Future[_Result]]:
    """Starts the processes. They inherit a blocked SIGINT: a terminal sends Ctrl-C to them as well."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [pool.submit(work, item) for item in items]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _initialise_process(threads: int, plugins: Sequence[Path]) -> None:
    """A spawned process has none of its parent's plugins, and does not end when its parent is killed."""
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    load_plugins(plugins)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
