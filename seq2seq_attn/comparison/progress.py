"""How far the runs of a grid are, by their files, wherever they are trained.

A run that is trained in a process of its own writes its messages beside its folder: `runs/ARM/seed-1.log`. The process
that waits for it passes them on, but for most of those on how far a run is. On a terminal, it shows all runs in one
table.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Literal, NamedTuple, cast

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.files.lock import is_locked
from seq2seq_attn.runs import Say
from seq2seq_attn.training import CURVES, LAST, PREVIOUS
from seq2seq_attn.training.progress import LOG_INTERVAL, Stderr, read_curve_rows, says_how_far

INTERVAL = 1.0  # seconds between two looks at the files of the runs
SHARE, LONGEST = 0.5, 600.0  # a line on how far a run is comes after this share of the time so far, or these seconds

State = Literal["running", "failed", "waiting", "continues", "new", "done"]


class RunProgress(NamedTuple):
    """How far a run is: at its last checkpoint, and in its last validation."""

    state: State
    epoch: float | None = None  # counted from 1; a fraction within an epoch
    step: int | None = None
    loss: float | None = None
    score: float | None = None  # in the main metric


def run_progress(folder: Path) -> RunProgress:
    """What the files of a run say that is not complete."""
    begun = any((folder / name).exists() for name in (LAST, PREVIOUS))
    state: State = "running" if is_locked(folder) else "continues" if begun else "new"
    with suppress(OSError, ValueError, IndexError):  # there is no row yet, or the file is damaged
        rows = read_curve_rows(folder / CURVES)
        scores = [(row.validation_loss, row.validation_score) for row in rows if row.validation_loss is not None]
        return RunProgress(state, rows[-1].epoch, rows[-1].step, *(scores[-1] if scores else ()))
    return RunProgress(state)


class Row(NamedTuple):
    """A run in the table of its grid."""

    run: ArmRun
    progress: RunProgress
    more: Mapping[str, str] = {}  # further columns


def grid_table(rows: Sequence[Row]) -> Table:
    """One row per run, with its state, its epoch and step, and its last validation."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("run", overflow="fold")
    for name in ("state", "epoch", "step", "validation", *(rows[0].more if rows else ())):
        table.add_column(name, overflow="fold", justify="right" if name in ("epoch", "step") else "left")
    for run, progress, more in rows:
        state, epoch, step, loss, score = progress
        main = run.config.evaluation.main
        validation = (
            f"{main.label} {score:.{main.digits}f}" if score is not None else "" if loss is None else f"loss {loss:.3f}"
        )
        numbers = "" if epoch is None else f"{epoch:.4g}", "" if step is None else f"{step:,}"
        table.add_row(*map(Text, (run.name, state, *numbers, validation, *more.values())))
    return table


def messages_of(run: ArmRun) -> Path:
    """The file with the messages of a run that was trained in a process of its own."""
    return run.runs / f"{run.folder}.log"


@contextmanager
def messages_to_file(run: ArmRun) -> Iterator[None]:
    """Within the block, what this process writes to stderr is appended to the messages of the run."""
    path = messages_of(run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unbuffered = path.open("ab", buffering=0)  # so that no error waits for the end of the block
    except OSError:  # the attempt will say why
        yield
        return
    with io.TextIOWrapper(cast(IO[bytes], unbuffered), "utf-8", write_through=True) as file, redirect_stderr(file):
        yield


class GridProgress:
    """Passes on the messages of runs in other processes and, on a terminal, shows the grid. A context manager."""

    def __init__(self, grid: Sequence[ArmRun], left: Sequence[ArmRun], say: Say) -> None:
        """`left` are the runs that are not complete yet."""
        self.grid, self.say = grid, say
        self.ended = {run.folder: self._at_end(run, "done") for run in grid if run not in left}
        self.read = {run.folder: _size(messages_of(run)) for run in left}
        self.console = Console(file=cast(IO[str], Stderr()))
        self.table = Live(
            get_renderable=self._table, console=self.console, auto_refresh=False, transient=True, redirect_stdout=False
        )
        self.start = self.shown = time.perf_counter()
        self.lock = Lock()
        self.is_over = Event()
        self.thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> GridProgress:
        if self.console.is_terminal:
            self.table.start()  # what is written to stderr from now on appears above it
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()
        self._pass_on()
        self.table.stop()

    def end(self, run: ArmRun, state: Literal["done", "failed"] | None) -> None:
        """Enters how an attempt ended; None: another process is at work on the run."""
        self._pass_on()
        if state is not None:
            self.ended[run.folder] = self._at_end(run, state)

    def _at_end(self, run: ArmRun, state: State) -> RunProgress:
        return run_progress(run.place)._replace(state=state)

    def _watch(self) -> None:
        while not self.is_over.wait(INTERVAL):
            self._pass_on()
            if self.table.is_started:
                self.table.refresh()

    def _pass_on(self) -> None:
        with self.lock:
            for run in self.grid:
                if run.folder in self.read:
                    self._pass_on_of(run)

    def _pass_on_of(self, run: ArmRun) -> None:
        with suppress(OSError), messages_of(run).open("rb") as file:
            file.seek(self.read[run.folder])
            whole, newline, _ = file.read().rpartition(b"\n")
            self.read[run.folder] += len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if not says_how_far(line) or self._is_due():
                    self.say(line)

    def _is_due(self) -> bool:
        """Whether a line on how far a run is is shown: none above the table, the fewer the longer the grid takes."""
        now = time.perf_counter()
        interval = min(max(LOG_INTERVAL, SHARE * (now - self.start)), LONGEST)
        if self.table.is_started or now - self.shown < interval:
            return False
        self.shown = now
        return True

    def _table(self) -> Table:
        """As many rows as the terminal has room for, those first that change, and how many runs are in each state."""
        rows = [Row(run, self._progress(run)) for run in self.grid]
        counts = Counter(row.progress.state for row in rows)
        order: Sequence[State] = "running", "failed", "waiting", "done"
        rows.sort(key=lambda row: order.index(row.progress.state))  # else in the order of the grid
        table = grid_table(rows[: max(1, self.console.height - 6)])
        table.caption = ", ".join(f"{counts[state]} {state}" for state in order if counts[state])
        return table

    def _progress(self, run: ArmRun) -> RunProgress:
        if run.folder in self.ended:
            return self.ended[run.folder]
        found = run_progress(run.place)
        return found if found.state == "running" else found._replace(state="waiting")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
