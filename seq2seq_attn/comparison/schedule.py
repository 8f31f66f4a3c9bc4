"""Trains the missing runs of an experiment in this process or in workers, which end whenever this process ends.

Several processes may work on one experiment: each takes the runs that no other has locked, then waits for the rest. A
run that fails does not stop the others.

Every worker imports this file, so imports that are slow (torch) are inside the functions that need them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.files.lock import BusyError
from seq2seq_attn.runs import Say, messages

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun

IfDone = Literal["resume", "overwrite"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class FailedRun(NamedTuple):
    """A run that could not be trained or tested."""

    run: ArmRun
    reason: str


class _Attempt(NamedTuple):
    """How one try to complete a run went; neither field is set if the run is complete."""

    failure: str | None = None
    busy: str | None = None  # another process is at work on it


def complete_all(
    grid: Sequence[ArmRun], runs: Path, if_exists: IfDone, jobs: int, say: Say, bar: bool | None = True
) -> list[FailedRun]:
    """Trains and tests every run of the grid, `jobs` at a time; finished runs are kept unless they are overwritten.

    All runs to overwrite are deleted before the first is trained, so that what goes on after an interruption has none
    of the earlier ones.

    The models are small: two runs in parallel with one thread each finish sooner than one after the other with two
    threads, which synchronize in every operation.

    Runs that another process has locked come last: they are waited for, and taken over if that process ends. Returns
    the runs that failed. UserError: a folder holds another run, or a file that the run did not write. In that case,
    nothing is trained.
    """
    from seq2seq_attn.files.lock import locked
    from seq2seq_attn.runs.folder import clear, may_resume, refuse_other_config

    for run in grid:
        if if_exists == "resume" and is_trained(run, runs):
            refuse_other_config(run.config, runs / run.folder)
        else:
            may_resume(run.config, runs / run.folder, if_exists)
    if if_exists == "overwrite":
        for folder in (runs / run.folder for run in grid):
            with suppress(BusyError), locked(folder):  # another process is at work on it
                clear(folder)
        if_exists = "resume"
    failed: list[FailedRun] = []
    busy: list[ArmRun] = []
    for number, (run, attempt) in enumerate(_attempts(grid, runs, if_exists, jobs, say, bar), start=1):
        if attempt.busy is not None:
            say(f"{run.name}: {attempt.busy}")
            busy.append(run)
        elif attempt.failure is not None:
            say(f"{run.name}: failed: {attempt.failure}")
            failed.append(FailedRun(run, attempt.failure))
        elif jobs > 1:
            say(f"{number - len(busy) - len(failed)} of {len(grid)} runs done")
    for run, attempt in _attempts(busy, runs, if_exists, jobs, say, bar, waiting=True):
        if attempt.failure is not None:
            say(f"{run.name}: failed: {attempt.failure}")
            failed.append(FailedRun(run, attempt.failure))
    return failed


def _attempts(
    grid: Sequence[ArmRun],
    runs: Path,
    if_exists: IfDone,
    jobs: int,
    say: Say,
    bar: bool | None,
    waiting: bool = False,
) -> Iterator[tuple[ArmRun, _Attempt]]:
    """One try for each run, in order of completion; `waiting` for other processes that are at work on one."""
    from seq2seq_attn.runs.plugin import loaded_plugins

    jobs = min(jobs, len(grid))
    if jobs <= 1:
        for number, run in enumerate(grid, start=1):
            numbered = lambda text, n=number: say(f"[{n}/{len(grid)}] {text}")  # noqa: E731
            yield run, _attempt(run, runs, if_exists, numbered, bar, waiting)
        return
    worker_say, worker_bar = messages(silent=bar is None), None if bar is None else False
    work = partial(_attempt_in_worker, runs=runs, if_exists=if_exists, say=worker_say, bar=worker_bar, waiting=waiting)
    prepare = partial(_prepare_to_train, max(1, (os.cpu_count() or 1) // jobs), loaded_plugins())
    for run, result in in_processes(work, grid, jobs, prepare):
        yield run, _Attempt(failure=result.reason) if isinstance(result, Ended) else result


def _attempt(run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool | None, waiting: bool) -> _Attempt:
    """Completes a run. Whatever prevents it becomes a reason, with a traceback through `say` if it is a defect."""
    try:
        complete(run, runs, if_exists, say, bar, wait=waiting)
    except BusyError as error:
        return _Attempt(busy=str(error))
    except UserError as error:
        return _Attempt(failure=str(error))
    except OSError as error:
        return _Attempt(failure=f"{file_of(error, runs / run.folder)}: {error.strerror or error}")
    except MemoryError:
        return _Attempt(failure="memory ran out; lower training.batch_size, or train fewer runs in parallel")
    except Exception as error:
        say(traceback.format_exc().rstrip())
        return _Attempt(failure=f"{type(error).__name__}: {error}")
    return _Attempt()


def _attempt_in_worker(run: ArmRun, **rest: Any) -> _Attempt:
    try:
        return _attempt(run, **rest)
    except KeyboardInterrupt:  # Ctrl-C does not reach workers, but somebody may end one of them
        return _Attempt(failure="its process was terminated")


def is_trained(run: ArmRun, runs: Path) -> bool:
    """Whether the training of a run has ended under its limits of epochs and patience; under higher ones it goes on."""
    from seq2seq_attn.runs.folder import read_config, read_metrics
    from seq2seq_attn.runs.plugin import run_values

    folder = runs / run.folder
    return "training" in read_metrics(folder) and run_values(read_config(folder)) == run_values(run.config)


def is_complete(run: ArmRun, runs: Path) -> bool:
    """Whether the run is trained, and tested if it has a test set: a trial is judged by its validation."""
    from seq2seq_attn.runs.folder import read_metrics

    tested = run.config.data.test is None or "test" in read_metrics(runs / run.folder)
    return tested and is_trained(run, runs)


def complete(
    run: ArmRun, runs: Path, if_exists: IfDone, say: Say, bar: bool | None = True, *, wait: bool = False
) -> None:
    """Trains and tests one run; skips what is already done. BusyError, unless `wait`: another process is at work."""
    from seq2seq_attn.analysis.scoring import evaluate
    from seq2seq_attn.ops.host import device_type
    from seq2seq_attn.runs.corpora import CACHE_FOLDER
    from seq2seq_attn.runs.folder import reserved
    from seq2seq_attn.runs.model import TrainedModel
    from seq2seq_attn.runs.train import train

    folder = runs / run.folder
    if if_exists == "resume" and is_complete(run, runs):
        say(f"{run.name}: done before")
        return
    with reserved(run.config, folder, if_exists, wait=wait):
        if if_exists == "resume" and is_complete(run, runs):
            say(f"{run.name}: done by another process")
            return
        if if_exists == "resume" and is_trained(run, runs):
            model = TrainedModel.load(folder, device_type(run.config.training.accelerator))
        else:
            cache = runs / CACHE_FOLDER
            model = train(run.config, folder, name=run.name, if_exists=if_exists, say=say, bar=bar, cache=cache)
        if run.config.data.test is None:
            return
        scores = evaluate(model, folder, say=lambda text: say(f"{run.name}: {text}"))
    main = run.config.evaluation.main
    say(f"{run.name}: {main.label} {scores[main.key]['value']:.2f} on the test set")


def _prepare_to_train(threads: int, plugins: Sequence[Path]) -> None:
    """Sets the threads and the memory allocation of a worker, and loads the plugins of its parent."""
    import torch

    from seq2seq_attn.ops.host import keep_freed_memory
    from seq2seq_attn.runs.plugin import load_plugins

    torch.set_num_threads(threads)
    keep_freed_memory()
    load_plugins(plugins)


class Ended(NamedTuple):
    """In place of the result of an item whose worker ended before it was done."""

    reason: str


def in_processes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int, prepare: Callable[[], object] | None = None
) -> Iterator[tuple[_Item, _Result | Ended]]:
    """Yields each item with the result of `work`, in order of completion; `jobs` items are processed in parallel.

    Every worker calls `prepare` first. A worker that is killed is replaced; its item is not tried again. The first
    exception, in a worker or here (Ctrl-C), stops all workers at once and is raised.
    """
    queue = deque(items)
    workers: list[_Worker[_Item, _Result]] = []
    try:
        while queue or workers:
            while queue and len(workers) < jobs:
                workers.append(_Worker(work, prepare, queue.popleft()))
            for ready in wait_for_any([worker.connection for worker in workers]):
                worker = next(each for each in workers if each.connection is ready)
                item, result = worker.item, worker.result()
                if isinstance(result, Ended) or not queue:
                    worker.stop()
                    workers.remove(worker)
                else:
                    worker.begin(queue.popleft())
                yield item, result
    finally:
        for worker in workers:
            worker.stop()


class _Worker(Generic[_Item, _Result]):
    """A process that is at work on one item after another."""

    def __init__(self, work: Callable[[_Item], _Result], prepare: Callable[[], object] | None, first: _Item) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(theirs, work, prepare))
        with _without_ctrl_c():
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the connection
        self.begin(first)

    def begin(self, item: _Item) -> None:
        self.item = item
        with suppress(BrokenPipeError):  # it was killed while it had nothing to do: `result` reports it
            self.connection.send(item)

    def result(self) -> _Result | Ended:
        """The result of the item, once the connection has something to read. Raises what `work` raised."""
        try:
            result, error, told = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return Ended(_reason(self.process.exitcode or 0))
        if error is not None:
            raise error from RuntimeError(told)
        value: _Result = result
        return value

    def stop(self) -> None:
        self.process.kill()  # whatever it does: files are replaced as a whole
        self.process.join()
        self.connection.close()


def _reason(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    more = "; the system does so when memory runs out" if name == "SIGKILL" else ""
    return f"its process was killed ({name}{more})"


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Blocks SIGINT, also in processes that the block starts: a terminal sends Ctrl-C to them as well.

    Windows cannot: there, a worker ignores it from its own first line on (`_serve`).
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, and unblock SIGINT before its own start
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _serve(connection: Connection, work: Callable[[_Item], _Result], prepare: Callable[[], object] | None) -> None:
    """The life of a worker. It ends with its parent: a spawned process outlives a killed parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which has it too, stops its workers
    Thread(target=_end_with_parent, daemon=True).start()
    is_prepared = prepare is None
    with suppress(EOFError, BrokenPipeError):  # the parent has ended
        while True:
            item = connection.recv()
            try:
                if prepare is not None and not is_prepared:
                    prepare()
                    is_prepared = True
                answer: tuple[_Result | None, Exception | None, str] = work(item), None, ""
            except Exception as error:
                answer = None, error, traceback.format_exc()
            connection.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
