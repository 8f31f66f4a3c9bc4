"""Where the runs of a comparison are trained: `--on local`, `ray` or `slurm`, a class each.

The engine assigns runs to processes and nodes. One that loses its node is assigned again, and continues from its last
checkpoint; the lock of its folder keeps a process that is still at work from being joined by another.

Every process of `local` imports this file, so it imports nothing that is slow (torch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun

On = Literal["local", "ray", "slurm"]


class Work(Protocol):
    """What is done with a run, by this many threads. It can be pickled, and so can what it returns."""

    def __call__(self, run: ArmRun, threads: int) -> Any: ...


class Ended(NamedTuple):
    """In place of the result of an item whose process ended before it was done."""

    reason: str


class Launcher(Protocol):
    """An engine that runs a function for each run of a grid, in a process of its own."""

    def launch(
        self, work: Work, runs: Sequence[ArmRun], say: Callable[[str], object]
    ) -> Iterator[tuple[ArmRun, Any | Ended]]:
        """Yields each run with the result of `work`, in order of completion; `say` reports where they are.

        A generator that is closed, by Ctrl-C for example, ends all processes. UserError: the engine is not installed,
        or cannot be reached.
        """
        ...


def find_launcher(on: On, jobs: int | None, runs: Path) -> Launcher | None:
    """The engine, with `jobs` runs at once at most; None for one after the other in this process.

    `runs` is the folder of all runs, where an engine may keep files of its own.

    UserError: no run could be trained.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs={jobs}: give 1 or more runs to train at once, or leave it out")
    if on == "ray":
        from seq2seq_attn.comparison.launchers.ray import Ray

        return Ray(jobs)
    if on == "slurm":
        from seq2seq_attn.comparison.launchers.slurm import Slurm

        return Slurm(jobs, runs / ".slurm")
    from seq2seq_attn.comparison.launchers.local import Local

    return None if jobs in (None, 1) else Local(jobs)
