"""Processes that work on runs beside this one, and end when it does, whatever ends it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TypeVar

import torch

from seq2seq_attn.ops.memory import keep_freed_memory
from seq2seq_attn.runs.plugin import load_plugins, loaded_plugins

Item = TypeVar("Item")
Done = TypeVar("Done")


def in_processes(work: Callable[[Item], Done], items: Iterable[Item], jobs: int) -> Iterator[Done]:
    """What `work` gives for each item, in the order in which they are done; `jobs` are worked on at a time.

    The first exception, here (Ctrl-C) or in a process, stops all of them at once.
    """
    with _workers(jobs) as pool:
        for future in as_completed(_submit(pool, work, items)):
            yield future.result()


@contextmanager
def _workers(jobs: int) -> Iterator[Executor]:
    threads = max(1, (os.cpu_count() or 1) // jobs)
    others = multiprocessing.active_children()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _begin, (threads, loaded_plugins())) as pool:
        try:
            yield pool
        except BaseException:
            # The pool's own shutdown waits for what is being worked on, and for an item that it has fetched ahead.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise


def _submit(pool: Executor, work: Callable[[Item], Done], items: Iterable[Item]) -> list[Future[Done]]:
    """Starts the processes. They inherit that Ctrl-C is blocked: the terminal sends it to them, too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [pool.submit(work, item) for item in items]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _begin(threads: int, plugins: Sequence[Path]) -> None:
    """A new process knows nothing of what the one that started it has loaded, nor when that is killed."""
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    load_plugins(plugins)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
