"""Runs in processes of this machine, which end whenever this process ends.

Every such process imports this file, so it imports nothing that is slow (torch).
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
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

from seq2seq_attn.comparison.launchers import Ended, Work
from seq2seq_attn.files.parent import end_with_parent

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Local:
    """A number of processes that share the cores of this machine."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def launch(
        self, work: Work, runs: Sequence[ArmRun], say: Callable[[str], object]
    ) -> Iterator[tuple[ArmRun, Any | Ended]]:
        jobs = min(self.jobs, len(runs))
        return in_processes(partial(work, threads=max(1, (os.cpu_count() or 1) // max(1, jobs))), runs, jobs)


def in_processes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int
) -> Iterator[tuple[_Item, _Result | Ended]]:
    """Yields each item with the result of `work`, in order of completion; `jobs` items are processed in parallel.

    If a process is killed, its item is not tried again, and the others go on. The first exception, in a process or here
    (Ctrl-C), stops all of them at once and is raised.
    """
    spawn = multiprocessing.get_context("spawn")
    waiting = deque(items)
    running: dict[Any, tuple[_Item, BaseProcess]] = {}  # by connection
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                item = waiting.popleft()
                ours, theirs = spawn.Pipe(duplex=False)
                process = spawn.Process(target=_serve, args=(theirs, work, item))
                with _without_ctrl_c():
                    process.start()
                theirs.close()  # so that the end of the process is the end of the connection
                running[ours] = item, process
            for ready in wait_for_any([*running]):
                item, ended = running.pop(ready)
                try:
                    result = _result(ready, ended)
                finally:
                    _stop(ready, ended)
                yield item, result
    finally:
        for connection, (_, each) in running.items():
            _stop(connection, each)


def _result(connection: Any, process: BaseProcess) -> Any:
    """The result of a process whose connection has something to read. Raises what `work` raised."""
    try:
        result, error, told = connection.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        return Ended(_reason(process.exitcode or 0))
    if error is not None:
        raise error from RuntimeError(told)
    return result


def _stop(connection: Any, process: BaseProcess) -> None:
    process.kill()  # whatever it does: files are replaced as a whole
    process.join()
    connection.close()


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


def _serve(connection: Any, work: Callable[[_Item], _Result], item: _Item) -> None:
    """Processes an item. The process ends with its parent: a spawned one would outlive a killed parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which has it too, stops its processes
    end_with_parent()
    answer: tuple[_Result | None, Exception | None, str]
    try:
        answer = work(item), None, ""
    except Exception as error:
        answer = None, error, traceback.format_exc()
    with suppress(BrokenPipeError):  # the parent has ended
        connection.send(answer)
