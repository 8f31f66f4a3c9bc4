"""Trains the missing runs of an experiment in this process or in workers, which end whenever this process ends.

Every worker imports this file, so imports that are slow (torch, Lightning) are inside the functions that need them.
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
from typing import TYPE_CHECKING, Literal, TypeVar

from seq2seq_attn.runs import Say

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun

IfDone = Literal["resume", "overwrite"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def complete_all(
    grid: Sequence[ArmRun], runs: Path, if_exists: IfDone, jobs: int, say: Say, bar: bool | None = True
) -> None:
    """Trains and tests every run of the grid, `jobs` at a time; finished runs are kept unless they are overwritten.

    The models are small: two runs in parallel with one thread each finish sooner than one after the other with two
    threads, which synchronise in every operation.

    UserError: a folder holds another run, or a file that the run did not write. In that case, nothing is trained.
    """
    from seq2seq_attn.runs.folder import may_resume, read_metrics, refuse_other_config
    from seq2seq_attn.runs.plugin import loaded_plugins
    from seq2seq_attn.training.fit import Interrupted

    for run in grid:
        if if_exists == "resume" and "training" in read_metrics(runs / run.folder):
            refuse_other_config(run.config, runs / run.folder)
        else:
            may_resume(run.config, runs / run.folder, if_exists)
    jobs = min(jobs, len(grid))
    if jobs <= 1:
        for number, run in enumerate(grid, start=1):
            complete(run, runs, if_exists, lambda text, n=number: say(f"[{n}/{len(grid)}] {text}"), bar)  # type: ignore[misc]
        return
    worker_say, worker_bar = (_nothing, None) if bar is None else (_to_stderr, False)
    work = partial(complete, runs=runs, if_exists=if_exists, say=worker_say, bar=worker_bar)
    prepare = partial(_prepare_to_train, max(1, (os.cpu_count() or 1) // jobs), loaded_plugins())
    try:
        for number, _ in enumerate(in_processes(work, grid, jobs, prepare), start=1):
            say(f"{number} of {len(grid)} runs done")
    except KeyboardInterrupt:
        raise Interrupted from None


def complete(run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool | None = True) -> None:
    """Trains and tests one run; skips what is already done."""
    from seq2seq_attn.analysis.scoring import evaluate
    from seq2seq_attn.runs.corpora import CACHE_FOLDER
    from seq2seq_attn.runs.folder import read_metrics
    from seq2seq_attn.runs.model import TrainedModel
    from seq2seq_attn.runs.train import train

    folder = runs / run.folder
    metrics = read_metrics(folder) if if_exists == "resume" else {}
    if "training" not in metrics:
        cache = runs / CACHE_FOLDER
        model = train(run.config, folder, name=run.name, if_exists=if_exists, say=say, bar=bar, cache=cache)
    elif "test" not in metrics:
        model = TrainedModel.load(folder)
    else:
        say(f"{run.name}: done before")
        return
    scores = evaluate(model, folder, say=lambda text: say(f"{run.name}: {text}"))
    say(f"{run.name}: BLEU {scores['bleu']['value']:.2f} on the test set")


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")  # in one piece, as other workers write to it as well
    sys.stderr.flush()


def _nothing(text: str) -> None:
    """Ignores the message. A function of the module, because workers cannot unpickle a lambda."""


def _prepare_to_train(threads: int, plugins: Sequence[Path]) -> None:
    """Sets the threads and the memory allocation of a worker, and loads the plugins of its parent."""
    import torch

    from seq2seq_attn.ops.host import keep_freed_memory
    from seq2seq_attn.runs.plugin import load_plugins

    torch.set_num_threads(threads)
    keep_freed_memory()
    load_plugins(plugins)


def in_processes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int, prepare: Callable[[], object] | None = None
) -> Iterator[_Result]:
    """Yields the results of `work` in order of completion; `jobs` items are processed in parallel.

    Every worker calls `prepare` first. The first exception, in a worker or here (Ctrl-C), stops all workers at once
    and is raised.
    """
    with _process_pool(jobs, prepare) as pool:
        for future in as_completed(_submit(pool, work, items)):
            yield future.result()


@contextmanager
def _process_pool(jobs: int, prepare: Callable[[], object] | None) -> Iterator[Executor]:
    others = multiprocessing.active_children()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _initialise_process, (prepare,)) as pool:
        try:
            yield pool
        except BaseException:
            # The pool's own shutdown would wait for running items, and for one more that it has prefetched.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise


def _submit(pool: Executor, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[Future[_Result]]:
    """Starts the workers with SIGINT blocked, because a terminal sends Ctrl-C to them as well."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [pool.submit(work, item) for item in items]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _initialise_process(prepare: Callable[[], object] | None) -> None:
    """Runs first in every worker, and ends it with its parent: a spawned process outlives a killed parent."""
    Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
