"""Micro-batches: lines that wait for a worker are decoded together if they have the same task and a similar length.

There is no added wait. As soon as a worker is idle, it takes the line that has waited longest and all others that fit
it, so batches grow with the load and an idle server decodes a single line at once. The event loop alone changes the
queue, so there are no locks; torch runs in threads alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol


class BatchTask(Protocol):
    """What is computed for lines; equal tasks can be computed together."""

    def __call__(self, items: Sequence[Any]) -> Sequence[Any]:
        """One result for each item, which does not depend on the other items. UserError for an item it refuses."""
        ...

    def __hash__(self) -> int: ...


class QueueFullError(Exception):
    """More lines wait than the queue takes."""


class _Line(NamedTuple):
    group: Hashable  # lines of one group are computed together
    task: BatchTask
    item: Any
    result: asyncio.Future[Any]


class Batches:
    """Workers and the lines that wait for them; used within one event loop."""

    def __init__(self, workers: int, max_waiting: int, batch_size: int, observe: Callable[[int], object]) -> None:
        self.max_waiting = max_waiting
        self.batch_size = batch_size
        self.observe = observe  # called with the size of every batch
        self.waiting: list[_Line] = []  # in order of arrival
        self._idle = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")

    async def run(
        self, task: BatchTask, items: Sequence[Any], lengths: Sequence[int] | None = None, *, admitted: bool = False
    ) -> list[Any]:
        """The results of a task for these items, whose lengths tell which others they can share a batch with.

        QueueFullError: the queue is full; `admitted` work, such as the next step of a stream, is never refused.
        UserError: an item is refused. If the caller is cancelled, its waiting lines leave the queue.
        """
        if not admitted and self.waiting and len(self.waiting) + len(items) > self.max_waiting:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        # Lengths of one group differ by a factor below 2: short lines do not wait for the last words of long ones.
        sizes = [length.bit_length() for length in lengths or [0] * len(items)]
        lines = [_Line((task, size), task, item, loop.create_future()) for item, size in zip(items, sizes, strict=True)]
        self.waiting += lines
        self._dispatch()
        try:
            return list(await asyncio.gather(*(line.result for line in lines)))
        finally:
            for line in lines:
                line.result.cancel()
            self.waiting = [line for line in self.waiting if not line.result.cancelled()]

    def _dispatch(self) -> None:
        while self._idle and self.waiting:
            first = self.waiting[0].group
            batch = [line for line in self.waiting if line.group == first][: self.batch_size]
            taken = set(map(id, batch))
            self.waiting = [line for line in self.waiting if id(line) not in taken]
            self._idle -= 1
            self.observe(len(batch))
            loop = asyncio.get_running_loop()
            done = loop.run_in_executor(self._threads, _results, batch[0].task, [line.item for line in batch])
            done.add_done_callback(partial(self._finish, batch))

    def _finish(self, batch: list[_Line], done: asyncio.Future[list[Any]]) -> None:
        self._idle += 1
        error = done.exception()
        for line, result in zip(batch, [error] * len(batch) if error else done.result(), strict=True):
            if line.result.done():
                continue  # its client has gone
            if isinstance(result, BaseException):
                line.result.set_exception(result)
            else:
                line.result.set_result(result)
        self._dispatch()

    def close(self) -> None:
        """No more batches; those that are running end in their threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _results(task: BatchTask, items: Sequence[Any]) -> list[Any]:
    """A result or an error for each item: one that is refused does not affect the others of its batch."""
    try:
        return list(task(items))
    except Exception as error:
        if len(items) == 1:
            return [error]
    return [result for item in items for result in _results(task, [item])]
