"""Runs as tasks of Ray: on the cluster of RAY_ADDRESS or, without one, on this machine for as long as it takes.

The folder of the comparison is on a file system that all nodes share. A task whose process or node dies is tried again
on another node, where the run continues from its last checkpoint.

Where Ray's own defaults surprise, they are set here, for as long as this process uses Ray:

- Every process has to prove that it is the user's, by the token in `~/.ray/auth_token`. With RAY_AUTH_MODE=disabled,
  whoever reaches a port of the cluster may run code in it.
- Ray does not report its usage. That of the command `ray start` does, unless RAY_USAGE_STATS_ENABLED=0.
- Without RAY_ADDRESS, no cluster is looked for: it might be another user's. The files of the new one are in a folder
  that no other user can read, until it ends; with RAY_TMPDIR they are kept there.
- It has no dashboard, which nothing here needs.
- A run that is ended because a node has no memory left is tried again as often as after another failure, not for ever.
- SIGTERM does what it did before.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from seq2seq_attn.comparison.launchers import Ended, Work
from seq2seq_attn.errors import UserError, needing

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun
    from seq2seq_attn.options import Resources

LOOK = 0.2  # seconds between two looks at the tasks
RETRIES = 10  # of a task whose process or node died
OWN = "SEQ2SEQ_ATTN_"  # environment variables that begin so are the same in all processes
ENVIRONMENT = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(RETRIES)}


class Ray:
    """Tasks of a Ray cluster, `jobs` at once at most."""

    def __init__(self, jobs: int | None) -> None:
        self.jobs = jobs

    def launch(
        self, work: Work, runs: Sequence[ArmRun], say: Callable[[str], object]
    ) -> Iterator[tuple[ArmRun, Any | Ended]]:
        with _connected() as ray:
            for resources in dict.fromkeys(run.resources for run in runs):
                if not any(_fits(resources, node["Resources"]) for node in ray.nodes()):
                    say(f"no node of the cluster has {resources.in_words('ray')}; runs that need it wait for one")
            train = ray.remote(max_calls=1, max_retries=RETRIES)(_call)  # a process for each run
            environment = {name: value for name, value in os.environ.items() if name.startswith(OWN)}
            waiting, running = deque(runs), dict[Any, "ArmRun"]()
            try:
                while waiting or running:
                    while waiting and len(running) < (self.jobs or len(runs)):
                        run = waiting.popleft()
                        task = train.options(**_options(run.resources), name=run.name)
                        running[task.remote(environment, pickle.dumps((work, run)))] = run
                    while not (ended := ray.wait([*running], timeout=0.0)[0]):
                        time.sleep(LOOK)  # within `ray.wait`, SIGTERM would be taken for Ctrl-C
                    for each in ended:
                        yield running.pop(each), _result(ray, each)
            finally:
                for each in running:
                    ray.cancel(each, force=True)


def _call(environment: Mapping[str, str], content: bytes) -> Any:
    """Does the work in a process of Ray, which has not imported this package before: it reads the environment then."""
    os.environ.update(environment)
    work, run = pickle.loads(content)
    return work(run, threads=run.resources.cpus)


def _fits(resources: Resources, node: Mapping[str, float]) -> bool:
    needed = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": 1e9 * (resources.memory or 0.0)}
    return all(node.get(name, 0.0) >= amount for name, amount in needed.items())


def _options(resources: Resources) -> dict[str, Any]:
    memory = {} if resources.memory is None else {"memory": int(resources.memory * 1e9)}
    return {"num_cpus": resources.cpus, "num_gpus": resources.gpus, **memory}


def _result(ray: Any, task: Any) -> Any | Ended:
    """What the task has returned, or the first line of why it has not."""
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return Ended(f"{type(error.cause).__name__}: {error.cause}")
    except ray.exceptions.RayError as error:
        return Ended(str(error).strip().partition("\n")[0])


@contextmanager
def _connected() -> Iterator[Any]:
    """Ray, connected to a cluster within the block; the connection of the caller if there is one."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        with needing("--on ray"):
            import ray
        if ray.is_initialized():
            yield ray
            return
        address, own = os.environ.get("RAY_ADDRESS") or "local", dict[str, Any]()
        with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
            if address == "local":
                own = {"include_dashboard": False, "_temp_dir": os.environ.get("RAY_TMPDIR") or f"{folder}/ray"}
            try:
                with _own_signals():
                    ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
            except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise UserError(f"--on ray: {address}: {error}") from None
            try:
                yield ray
            finally:
                ray.shutdown()
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)


@contextmanager
def _own_signals() -> Iterator[None]:
    """The handler of SIGTERM stays as it is: Ray replaces it."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # which was no handler of Python
            signal.signal(signal.SIGTERM, before)
