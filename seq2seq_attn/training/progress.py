"""What training shows while it runs: lines and a bar on stderr, and curves."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seq2seq_attn.files.checksums import write_recorded
from seq2seq_attn.training import CURVES
from seq2seq_attn.training.checkpoints import TrainingState
from seq2seq_attn.training.config import Limit, TrainingConfig
from seq2seq_attn.training.loggers import LoggerName, TrackedRun, open_loggers

LOG_INTERVAL = 30.0  # minimum seconds between the lines of a log; a terminal gets a line for every epoch

_HOW_FAR = re.compile(r": (epoch \d+/\d+|step [\d,]+/[\d,]+|before the first step), ")


def says_how_far(line: str) -> bool:
    """Whether `ProgressLines` wrote this line for an epoch or a validation; the next one makes it out of date."""
    return _HOW_FAR.search(line) is not None


class ProgressLines:
    """A line on stderr for each epoch; on a terminal, also a bar with the time left, ignoring early stopping.

    In a log, lines are at least `LOG_INTERVAL` apart, except for the last epoch. A context manager: the bar is there
    within its block. With `bar` None, nothing is written at all.
    """

    def __init__(self, name: str, bar: bool | None, step: int, steps: int, score: str | None) -> None:
        """`step` of all `steps` have been taken; `score` is the label of that of a validation."""
        self.score = score
        self.name, self.is_silent = name, bar is None
        self.first_step, self.steps = step, steps
        self.start = self.written = time.perf_counter()
        self.console = Console(file=cast(IO[str], Stderr()))
        self.bar: Progress | None = None
        if bar and self.console.is_terminal:
            columns = BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeElapsedColumn()
            left = TextColumn("at most"), TimeRemainingColumn()
            self.bar = Progress(TextColumn("{task.description}"), *columns, *left, console=self.console, transient=True)
            self.task = self.bar.add_task(name, total=steps, completed=step)

    def __enter__(self) -> ProgressLines:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show_step(self, step: int) -> None:
        """Moves the bar."""
        if self.bar is not None:
            self.bar.update(self.task, completed=step)

    def show_validation(
        self, state: TrainingState, loss: float, scores: Mapping[str, float], epochs: int | None, is_last: bool
    ) -> None:
        """A line at the end of an epoch, or after a validation: the mean loss of a token, the scores of a validation.

        `epochs` is the number of those to train; None if the number of steps is the limit.
        """
        now = time.perf_counter()
        if not (self.console.is_terminal or is_last or now - self.written >= LOG_INTERVAL):
            return
        self.written = now
        text = f"epoch {state.epoch}/{epochs}" if epochs else f"step {state.step:,}/{self.steps:,}"
        text = f"{text}, loss {loss:.3f}" if state.step else "before the first step"
        if scores:
            text += f", validation loss {scores['loss']:.3f}"
        if "score" in scores:
            text += f", {self.score} {scores['score']:.2f}"
        if state.step:
            speed = state.epoch_tokens / max(state.epoch_seconds, 1e-9)
            text += f", {duration(state.epoch_seconds)}, {speed:,.0f} tokens/s"
        if state.skipped_steps:
            text += f", {state.skipped_steps} steps skipped"
        left = (now - self.start) / max(1, state.step - self.first_step) * (self.steps - state.step)
        self.write(text if is_last else f"{text}, at most {duration(left)} left")

    def show_end(self, stopped: Limit | None, config: TrainingConfig) -> None:
        """Why a training ended that might have gone on."""
        if stopped == "patience":
            self.write(f"stopped: {config.patience} validations without improvement (training.patience)")
        if stopped == "max_hours":
            self.write(f"stopped after {config.max_hours:g} hours (training.max_hours); --resume continues")

    def write(self, text: str) -> None:
        """A line that begins with the name of the run."""
        if not self.is_silent:
            self.console.print(f"{self.name}: {text}", highlight=False, markup=False, soft_wrap=True)


class Stderr:
    """stderr, where what cannot be written is lost: a full disk or a closed terminal must not end training."""

    def __init__(self) -> None:
        self.stream = sys.stderr  # as long as it shows a bar, rich has something else in its place

    def write(self, text: str) -> None:
        with suppress(OSError):
            self.stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def duration(seconds: float) -> str:
    """A time for humans: 8.3 s, 45 s, 12 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


class CurveRow(NamedTuple):
    """A row of `log/metrics.csv`: what was measured at a step; None where it was not."""

    epoch: float  # counted from 1; a fraction within an epoch
    step: int
    train_loss: float | None
    validation_loss: float | None
    validation_score: float | None  # in the main metric


class Curves:
    """The losses and scores of a training by step: `log/metrics.csv` of its folder, and what `loggers` show.

    The rows are a part of the training's state, so a training that is resumed has those up to its checkpoint. A context
    manager, because a logger may have a thread or process of its own.
    """

    def __init__(self, folder: Path, loggers: Sequence[LoggerName] | None, run: TrackedRun, step: int) -> None:
        """`step` is the last one that was logged before."""
        self.folder = folder
        self.pictures = run.pictures
        self.loggers = open_loggers(loggers, (folder / CURVES).parent, run, step)

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self.loggers:
            logger.close()

    def add(self, state: TrainingState, epoch: float, values: Mapping[str, float]) -> None:
        """A row for the step that was taken last, counted from 1, and an epoch: a fraction of it is written as such."""
        whole = int(epoch) if epoch == int(epoch) else epoch
        state.curve.append({"epoch": whole, "step": state.step, **values})
        for logger in self.loggers:
            logger.add(state.step, values)

    def draw(self, state: TrainingState) -> None:
        """Shows pictures of the model that is validated, if any are to be drawn."""
        if self.pictures is None or not self.loggers:
            return
        pictures = self.pictures()
        for logger in self.loggers:
            logger.add_pictures(state.step, pictures)

    def save(self, state: TrainingState) -> None:
        """Writes all rows so far."""
        content = io.StringIO(newline="")
        table = csv.DictWriter(content, CurveRow._fields, lineterminator="\n")
        table.writeheader()
        table.writerows(state.curve)
        write_recorded(self.folder, {CURVES: content.getvalue().encode()})
        for logger in self.loggers:
            logger.flush()


def read_curve_rows(path: Path) -> list[CurveRow]:
    """The rows of a file that `Curves` wrote. OSError: it cannot be read; ValueError: it is malformed."""
    with path.open(encoding="utf-8", newline="") as file:
        try:
            return [
                CurveRow(
                    float(row["epoch"]),
                    int(row["step"]),
                    *(float(row[column]) if row[column] else None for column in CurveRow._fields[2:]),
                )
                for row in csv.DictReader(file)
            ]
        except (TypeError, LookupError, csv.Error) as error:
            raise ValueError(str(error)) from None
