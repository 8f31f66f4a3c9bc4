"""Trains the missing runs of an experiment, in this process or where a launcher puts them.

Several processes may work on one experiment: each takes the runs that no other has locked, then waits for the rest. A
run that fails does not stop the others.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from seq2seq_attn.analysis.scoring import evaluate
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.comparison.launchers import Ended, Launcher
from seq2seq_attn.comparison.progress import GridProgress, messages_to_file
from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.files.lock import BusyError, locked
from seq2seq_attn.ops.host import device_type, keep_freed_memory
from seq2seq_attn.runs import Say, messages
from seq2seq_attn.runs import train as run_training
from seq2seq_attn.runs.cache import CACHE_FOLDER
from seq2seq_attn.runs.folder import clear, may_resume, read_config, read_metrics, refuse_other_config, reserved
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.plugin import load_plugins, loaded_plugins, run_values

IfDone = Literal["resume", "overwrite"]


class FailedRun(NamedTuple):
    """A run that could not be trained or tested."""

    run: ArmRun
    reason: str


class _Attempt(NamedTuple):
    """How one try to complete a run went; neither field is set if the run is complete."""

    failure: str | None = None
    busy: str | None = None  # another process is at work on it


def complete_all(
    grid: Sequence[ArmRun],
    if_exists: IfDone,
    launcher: Launcher | None,
    say: Say,
    bar: bool | None = True,
) -> list[FailedRun]:
    """Trains and tests every run of the grid; finished runs are kept unless they are overwritten.

    Without a launcher, one after the other in this process. With one, their messages are passed on to `say`, and a
    terminal shows the grid; neither with `bar` None.

    All runs to overwrite are deleted before the first is trained, so that what goes on after an interruption has none
    of the earlier ones.

    The models are small: two runs in parallel with one thread each finish sooner than one after the other with two
    threads, which synchronize in every operation.

    Runs that another process has locked come last: they are waited for, and taken over if that process ends. Returns
    the runs that failed. UserError: a folder holds another run, or a file that the run did not write. In that case,
    nothing is trained.
    """
    if if_exists == "overwrite":
        delete_all(grid)
    else:
        refuse_others(grid)
    failed: list[FailedRun] = []
    left = [run for run in grid if not is_complete(run)]  # no process is started for the others
    done = len(grid) - len(left)
    if done:
        say(f"{done} of {len(grid)} runs were done before")
    if not left:
        return failed
    progress = None if launcher is None or bar is None else GridProgress(grid, left, say)
    with progress or nullcontext():
        for waiting in (False, True):
            busy = []
            for run, attempt in _attempts(left, launcher, say, bar, waiting):
                if progress is not None:
                    progress.end(run, "failed" if attempt.failure else None if attempt.busy else "done")
                if attempt.busy is not None:
                    say(f"{run.name}: {attempt.busy}")
                    busy.append(run)
                elif attempt.failure is not None:
                    say(f"{run.name}: failed: {attempt.failure}")
                    failed.append(FailedRun(run, attempt.failure))
                else:
                    done += 1
                    if launcher is not None:
                        say(f"{done} of {len(grid)} runs done")
            left = busy
    return failed


def refuse_others(grid: Sequence[ArmRun]) -> None:
    """UserError if the folder of a run holds another one, or a file that the run did not write."""
    for run in grid:
        if is_trained(run):
            refuse_other_config(run.config, run.place)
        else:
            may_resume(run.config, run.place, "resume")


def delete_all(grid: Sequence[ArmRun]) -> None:
    """Deletes these runs, except those that another process is at work on. UserError as by `complete_all`."""
    for run in grid:
        may_resume(run.config, run.place, "overwrite")
    for run in grid:
        with suppress(BusyError), locked(run.place):
            clear(run.place)


def _attempts(
    grid: Sequence[ArmRun], launcher: Launcher | None, say: Say, bar: bool | None, waiting: bool
) -> Iterator[tuple[ArmRun, _Attempt]]:
    """One try for each run, in order of completion; `waiting` for other processes that are at work on one."""
    if launcher is None:
        for number, run in enumerate(grid, start=1):
            numbered = lambda text, n=number: say(f"[{n}/{len(grid)}] {text}")  # noqa: E731
            yield run, _attempt(run, numbered, bar, waiting)
    elif grid:
        work = partial(_attempt_elsewhere, Path.cwd(), loaded_plugins(), waiting)
        for run, result in launcher.launch(work, [run._replace(runs=run.runs.absolute()) for run in grid], say):
            yield run, _Attempt(failure=result.reason) if isinstance(result, Ended) else result


def _attempt(
    run: ArmRun,
    say: Say,
    bar: bool | None,
    waiting: bool,
    prepare: Callable[[], object] = lambda: None,
) -> _Attempt:
    """Completes a run. Whatever prevents it becomes a reason, with a traceback through `say` if it is a defect."""
    try:
        prepare()
        complete(run, say, bar, wait=waiting)
    except BusyError as error:
        return _Attempt(busy=str(error))
    except UserError as error:
        return _Attempt(failure=str(error))
    except OSError as error:
        return _Attempt(failure=f"{file_of(error, run.place)}: {error.strerror or error}")
    except MemoryError:
        return _Attempt(failure="memory ran out; lower training.batch_size, or train fewer runs in parallel")
    except Exception as error:
        say(traceback.format_exc().rstrip())
        return _Attempt(failure=f"{type(error).__name__}: {error}")
    return _Attempt()


def _attempt_elsewhere(directory: Path, plugins: Sequence[Path], waiting: bool, run: ArmRun, threads: int) -> _Attempt:
    """An attempt in a process of its own, perhaps on another host, whose messages go to a file beside the run."""

    def prepare() -> None:
        os.chdir(directory)  # paths of the configuration are relative to it
        torch.set_num_threads(threads)
        keep_freed_memory()
        load_plugins(plugins)

    try:
        with messages_to_file(run):
            return _attempt(run, messages(silent=False), False, waiting, prepare)
    except KeyboardInterrupt:  # Ctrl-C does not reach workers, but somebody may end one of them
        return _Attempt(failure="its process was terminated")


def is_trained(run: ArmRun) -> bool:
    """Whether the training of a run has ended under its limits of epochs and patience; under higher ones it goes on."""
    is_ended = "training" in read_metrics(run.place)
    return is_ended and run_values(read_config(run.place)) == run_values(run.config)


def is_complete(run: ArmRun) -> bool:
    """Whether the run is trained, and tested if it has a test set: a trial is judged by its validation."""
    tested = run.config.data.test is None or "test" in read_metrics(run.place)
    return tested and is_trained(run)


def complete(run: ArmRun, say: Say, bar: bool | None = True, *, wait: bool = False) -> None:
    """Trains and tests one run; skips what is already done. BusyError, unless `wait`: another process is at work."""
    folder = run.place
    with reserved(run.config, folder, "resume", wait=wait):
        if is_complete(run):
            say(f"{run.name}: done by another process")
            return
        if is_trained(run):
            model = TrainedModel.load(folder, device_type(run.config.training.accelerator))
        else:
            model = run_training.train(
                run.config,
                folder,
                name=run.name,
                if_exists="resume",
                say=say,
                bar=bar,
                cache=run.runs / CACHE_FOLDER,
                group=run.runs.resolve().parent.name,  # the folder of the comparison
                draw=run.draw,
            )
        if run.config.data.test is None:
            return
        scores = evaluate(model, folder, say=lambda text: say(f"{run.name}: {text}"))
    main = run.config.evaluation.main
    say(f"{run.name}: {main.label} {scores[main.key]['value']:.2f} on the test set")
