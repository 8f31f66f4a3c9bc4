"""Which lines are computed together, what happens to those of clients that leave, and what a full queue does."""

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.serve.batches import Batches, QueueFullError, StoppingError


@dataclass(frozen=True)
class Upper:
    """A task whose batches wait until they may go on."""

    name: str = ""
    go: threading.Event = field(default_factory=threading.Event, compare=False)
    seen: list = field(default_factory=list, compare=False)
    batch_size: ClassVar[int] = 4

    def __call__(self, items, at_step):
        self.seen.append(list(items))
        assert self.go.wait(10)
        if "bad" in items:
            raise UserError("a bad item")
        return [item.upper() for item in items]


def batches(workers=1, most=100):
    return Batches(workers, most, lambda lines: None)


async def arrive():
    """Lets everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0.01)


def test_what_waits_is_computed_together_by_task_and_length():
    async def play():
        queue, task, other = batches(), Upper(), Upper("other")
        shared = task.__class__("", task.go, task.seen)  # equal: of another request with the same options
        first = asyncio.create_task(queue.run(task, ["first"], [1]))
        await arrive()
        rest = [
            asyncio.create_task(queue.run(each, items, lengths))
            for each, items, lengths in (
                (task, ["a", "b"], [4, 16]),
                (other, ["c"], [4]),
                (shared, ["d", "e", "f"], [5, 7, 6]),
                (task, ["g"], [7]),
            )
        ]
        await arrive()
        assert task.seen == [["first"]]  # at once, though alone
        task.go.set()
        other.go.set()
        assert await first == ["FIRST"]
        assert await asyncio.gather(*rest) == [["A", "B"], ["C"], ["D", "E", "F"], ["G"]]
        assert task.seen == [["first"], ["a", "d", "e", "f"], ["b"], ["g"]]  # at most 4, lengths below twice the least
        assert other.seen == [["c"]]
        queue.close()

    asyncio.run(play())


def test_several_workers_compute_at_once():
    async def play():
        queue, task = batches(workers=2), Upper()
        both = [asyncio.create_task(queue.run(task, [item])) for item in "ab"]
        await arrive()
        assert task.seen == [["a"], ["b"]]
        task.go.set()
        assert await asyncio.gather(*both) == [["A"], ["B"]]
        queue.close()

    asyncio.run(play())


def test_lines_of_a_client_that_leaves_are_dropped():
    async def play():
        queue, task = batches(), Upper()
        running = asyncio.create_task(queue.run(task, ["running"]))
        await arrive()
        gone, stays = (asyncio.create_task(queue.run(task, [item, item])) for item in ("gone", "stays"))
        await arrive()
        gone.cancel()
        running.cancel()  # a batch that runs ends, for nobody
        await arrive()
        assert len(queue.waiting) == 2
        task.go.set()
        assert await stays == ["STAYS", "STAYS"]
        assert task.seen == [["running"], ["stays", "stays"]]
        assert not queue.waiting
        queue.close()

    asyncio.run(play())


def test_a_full_queue_refuses_all_but_admitted_work():
    async def play():
        queue, task = batches(most=3), Upper()
        tasks = [asyncio.create_task(queue.run(task, items)) for items in (["a"], ["b", "c"])]
        await arrive()
        with pytest.raises(QueueFullError):
            await queue.run(task, ["d", "e"])
        tasks.append(asyncio.create_task(queue.run(task, ["f", "g"], admitted=True)))
        await arrive()
        task.go.set()
        assert await asyncio.gather(*tasks) == [["A"], ["B", "C"], ["F", "G"]]
        assert await queue.run(task, ["h"]) == ["H"]
        queue.close()

    asyncio.run(play())


def test_a_refused_item_does_not_affect_the_others_of_its_batch():
    async def play():
        queue, task = batches(), Upper()
        task.go.set()
        good, bad = await asyncio.gather(
            queue.run(task, ["a", "b"]), queue.run(task, ["bad", "c"]), return_exceptions=True
        )
        assert good == ["A", "B"]
        assert isinstance(bad, UserError)
        assert await queue.run(task, ["d"]) == ["D"]  # the worker goes on
        queue.close()

    asyncio.run(play())


@dataclass(frozen=True)
class Steps:
    """A task that notes its name in `log` at each of its steps."""

    name: str
    log: list = field(compare=False)
    steps: int = 10**9
    batch_size: ClassVar[int] = 4

    def __call__(self, items, at_step):
        for _ in range(self.steps):
            at_step()
            self.log.append(self.name)
            time.sleep(0.002)
        return [self.name for _ in items]


def test_a_small_request_is_decoded_between_two_steps_of_a_large_one_which_goes_on():
    async def play():
        queue, log = batches(workers=1), []
        large = asyncio.create_task(queue.run(Steps("large", log, 60), ["a"], is_large=True))
        await arrive()
        small = [asyncio.create_task(queue.run(Steps(name, log, 3), ["a"])) for name in "xyz"]
        assert await asyncio.gather(*small) == [["x"], ["y"], ["z"]]
        assert not large.done()
        assert await large == ["large"]
        places = [log.index(name) for name in "xyz"]
        assert [log[place : place + 3] for place in places] == [list("xxx"), list("yyy"), list("zzz")]
        assert [log[place + 3] for place in places] == ["large"] * 3  # a step of its own after each small batch
        assert log.count("large") == 60
        assert not queue.running
        queue.close()

    asyncio.run(play())


def test_a_batch_ends_at_its_next_step_when_its_last_client_has_left():
    async def play():
        queue, log = batches(), []
        task, blocking = Steps("", log), Upper()
        blocker = asyncio.create_task(queue.run(blocking, ["first"]))
        await arrive()
        one, two = (asyncio.create_task(queue.run(task, ["a"])) for _ in "ab")
        await arrive()
        blocking.go.set()  # both are in the next batch
        await blocker
        await arrive()
        one.cancel()
        await arrive()
        before = len(log)
        await arrive()
        assert len(log) > before  # for the second
        two.cancel()
        await arrive()
        await arrive()
        assert not queue.running
        queue.close()

    asyncio.run(play())


def test_a_stop_ends_what_runs_what_waits_and_what_comes():
    async def play():
        queue, log = batches(), []
        asked = [
            asyncio.create_task(queue.run(Steps(name, log), [name], is_large=is_large))
            for name, is_large in (("large", True), ("small", False), ("waits", False))
        ]
        await arrive()  # the large one has lent its worker to the small one
        assert set(log) - {"large"} == {"small"}
        queue.stop()
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, StoppingError)
        with pytest.raises(StoppingError):
            await queue.run(Steps("late", log), ["late"])
        await arrive()
        assert not queue.running
        assert "waits" not in log
        queue.close()

    asyncio.run(play())
