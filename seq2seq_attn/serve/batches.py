"""Micro-batches: lines that wait for a worker are decoded together if they have the same task and a similar length.

There is no added wait. As soon as a worker is idle, it takes the line that has waited longest and all others that fit
it, so batches grow with the load and an idle server decodes a single line at once. The event loop alone changes the
queue, so there are no locks; torch runs in threads alone.

Between two of its steps, a batch of a large request asks three things (`_Batch.at_step`): whether anybody still waits
for it, whether the server stops, and whether lines of a small request wait. To those it lends its worker until they are
decoded, one batch for each of its own steps: a small request waits for a step of a large one, and a large one goes on,
however many small ones there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from seq2seq_attn.search.interruptible import AtStep


class BatchTask(Protocol):
    """What is computed for lines; equal tasks can be computed together."""

    @property
    def batch_size(self) -> int:
        """How many lines are computed together at most."""
        ...

    def __call__(self, items: Sequence[Any], at_step: AtStep) -> Sequence[Any]:
        """One result for each line, which does not depend on the other lines. UserError for a line that is refused.

        `at_step` is called before every step; what it raises ends the computation.
        """
        ...

    def __hash__(self) -> int: ...


class QueueFullError(Exception):
    """More lines wait than the queue takes."""


class StoppingError(Exception):
    """The server stops, and what it had begun does not end."""


class Abandoned(BaseException):
    """Nobody waits for the batch any more. No error of an item, so that `except Exception` lets it pass."""


class _Line(NamedTuple):
    group: Hashable  # lines of one group are computed together
    task: BatchTask
    item: Any
    is_large: bool  # the request of the line
    result: asyncio.Future[Any]


class _Batch:
    """Lines that are being computed, and what their thread asks the event loop."""

    def __init__(self, lines: Sequence[_Line], queue: Batches) -> None:
        self.lines = lines
        self.queue = queue
        self.loop = asyncio.get_running_loop()
        self.is_abandoned = False

    def at_step(self) -> None:
        """Called in the thread of the batch. Abandoned: nobody waits for it any more."""
        if not self.is_abandoned and self.lines[0].is_large and self.queue.first_small() is not None:
            asyncio.run_coroutine_threadsafe(self.queue.compute_small(), self.loop).result()
        if self.is_abandoned:
            raise Abandoned

    def abandon_if_unwanted(self) -> None:
        self.is_abandoned = all(line.result.done() for line in self.lines)


class Batches:
    """Workers and the lines that wait for them; used within one event loop."""

    def __init__(self, workers: int, max_waiting: int, observe: Callable[[int], object]) -> None:
        self.max_waiting = max_waiting
        self.observe = observe  # called with the size of every batch
        self.waiting: list[_Line] = []  # in order of arrival
        self.running: set[_Batch] = set()
        self.is_stopping = False
        self._idle = workers
        self._busy: set[asyncio.Task[None]] = set()
        # A worker that is lent waits in its own thread, and the small batch is computed in another.
        self._threads = ThreadPoolExecutor(2 * workers, thread_name_prefix="decode")

    async def run(
        self,
        task: BatchTask,
        items: Sequence[Any],
        lengths: Sequence[int] | None = None,
        *,
        is_large: bool = False,
        admitted: bool = False,
    ) -> list[Any]:
        """The results of a task for these items, whose lengths tell which others they can share a batch with.

        QueueFullError: the queue is full; `admitted` work, such as the next step of a stream, is never refused.
        StoppingError: the server stops. UserError: an item is refused. If the caller is canceled, its waiting lines
        leave the queue, and a batch that has begun ends at its next step unless others wait for it.
        """
        if self.is_stopping:
            raise StoppingError
        if not admitted and self.waiting and len(self.waiting) + len(items) > self.max_waiting:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        # Lengths of one group differ by a factor below 2: short lines do not wait for the last words of long ones.
        sizes = [length.bit_length() for length in lengths or [0] * len(items)]
        lines = [
            _Line((task, size, is_large), task, item, is_large, loop.create_future())
            for item, size in zip(items, sizes, strict=True)
        ]
        self.waiting += lines
        while self._idle and self.waiting:
            self._idle -= 1
            worker = loop.create_task(self._work(self._take(self.waiting[0])))
            self._busy.add(worker)
            worker.add_done_callback(self._busy.discard)
        try:
            return list(await asyncio.gather(*(line.result for line in lines)))
        finally:
            for line in lines:
                line.result.cancel()
            self._forget_unwanted()

    async def _work(self, batch: _Batch) -> None:
        """A worker, from its first batch until nothing waits."""
        try:
            await self._compute(batch)
            while self.waiting:
                await self._compute(self._take(self.waiting[0]))
        finally:
            self._idle += 1

    def first_small(self) -> _Line | None:
        """The line of a small request that has waited longest; asked by the threads, too."""
        return next((line for line in self.waiting if not line.is_large), None)

    async def compute_small(self) -> None:
        """Computes a batch of a small request, if one still waits."""
        if (small := self.first_small()) is not None:
            await self._compute(self._take(small))

    def _take(self, first: _Line) -> _Batch:
        """A waiting line with those that fit it, which wait no more."""
        lines = [line for line in self.waiting if line.group == first.group][: first.task.batch_size]
        taken = set(map(id, lines))
        self.waiting = [line for line in self.waiting if id(line) not in taken]
        self.observe(len(lines))
        batch = _Batch(lines, self)
        self.running.add(batch)
        return batch

    async def _compute(self, batch: _Batch) -> None:
        lines, task = batch.lines, batch.lines[0].task
        items = [line.item for line in lines]
        try:
            results = await batch.loop.run_in_executor(self._threads, _results, task, items, batch.at_step)
        except (Exception, Abandoned) as error:
            results = [error] * len(items)
        finally:
            self.running.remove(batch)
        for line, result in zip(lines, results, strict=True):
            if line.result.done():
                continue  # its client has gone
            if isinstance(result, BaseException):
                line.result.set_exception(result)
            else:
                line.result.set_result(result)

    def _forget_unwanted(self) -> None:
        """Drops waiting lines whose clients have gone, and ends batches for which nobody waits."""
        self.waiting = [line for line in self.waiting if not line.result.done()]
        for batch in self.running:
            batch.abandon_if_unwanted()

    def stop(self) -> None:
        """Ends everything: StoppingError for every line that waits or is being computed."""
        self.is_stopping = True
        for line in (*self.waiting, *(line for batch in self.running for line in batch.lines)):
            if not line.result.done():
                line.result.set_exception(StoppingError())
        self._forget_unwanted()

    def close(self) -> None:
        """No more batches; the threads end with those that are running."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _results(task: BatchTask, items: Sequence[Any], at_step: AtStep) -> list[Any]:
    """A result or an error for each item: one that is refused does not affect the others of its batch."""
    try:
        return list(task(items, at_step))
    except Exception as error:
        if len(items) == 1:
            return [error]
    return [result for item in items for result in _results(task, [item], at_step)]
