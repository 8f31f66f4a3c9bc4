"""What a training run keeps count of while it runs: its best weights, its time and tokens, and lines on stderr."""

from __future__ import annotations

import copy
import math
import sys
import time
from contextlib import suppress
from typing import IO, Any, cast

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seq2seq_attn.training.module import TranslationModule

LOG_INTERVAL = 10.0  # minimum seconds between the lines of a log; a terminal gets a line for every epoch


class BestWeights(Callback):
    """The weights of the best validation, and early stopping; saved in checkpoints with score, epoch and age."""

    def __init__(self, monitor: str, mode: str, patience: int | None) -> None:
        self.monitor = monitor
        self.sign = 1 if mode == "max" else -1
        self.patience = patience
        self.weights: dict[str, torch.Tensor] = {}
        self.score: float | None = None
        self.epoch: int | None = None
        self.since = 0  # validations without improvement since the best one

    @property
    def is_out_of_patience(self) -> bool:
        """Whether training ends because the last `patience` validations brought no improvement."""
        return self.patience is not None and self.since >= self.patience

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        score = float(trainer.callback_metrics[self.monitor])
        if not isinstance(module, TranslationModule):
            return
        self.since += module.config.is_informative(score)
        if self._is_better(score):
            self.score, self.epoch, self.since = score, trainer.current_epoch + 1, 0
            self.weights = copy.deepcopy(module.translator.state_dict())
        trainer.should_stop |= self.is_out_of_patience

    def _is_better(self, score: float) -> bool:
        """Whether a score is better than the best one; any number is better than a score that is not one.

        A BLEU below 1 carries no information, and the first epochs may have no other: then the latest is the best.
        """
        if self.score is None or math.isnan(self.score):
            return self.score is None or not math.isnan(score)
        if self.sign > 0 and self.score < 1:
            return not math.isnan(score)
        return self.sign * (score - self.score) > 0

    def state_dict(self) -> dict[str, Any]:
        return {"score": self.score, "epoch": self.epoch, "since": self.since, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.score, self.weights = state_dict["score"], state_dict.get("weights", self.weights)
        self.epoch, self.since = state_dict.get("epoch"), state_dict.get("since", 0)  # version 0.1 has only the score


class Clock(Callback):
    """Counts the time and tokens of training; saved in checkpoints, so that a resumed run continues the count."""

    def __init__(self) -> None:
        self.seconds = self.training_seconds = 0.0
        self.epoch_seconds = 0.0  # of this epoch, its validation included
        self.tokens = 0
        self.has_started = False
        self._counted = 0

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.has_started = True
        self._mark = time.perf_counter()

    def on_train_epoch_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._mark, self.epoch_seconds = time.perf_counter(), 0.0

    def on_train_batch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: Any) -> None:
        self.training_seconds += self._count()
        if isinstance(module, TranslationModule):
            self.tokens += module.tokens - self._counted
            self._counted = module.tokens

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._count()

    def _count(self) -> float:
        """The seconds since the last call, after adding them."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self.seconds += elapsed
        self.epoch_seconds += elapsed
        return elapsed

    def state_dict(self) -> dict[str, float]:
        return {
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
            "epoch_seconds": self.epoch_seconds,
            "tokens": self.tokens,
        }

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.seconds, self.training_seconds = state_dict["seconds"], state_dict["training_seconds"]
        self.epoch_seconds = state_dict.get("epoch_seconds", 0.0)  # version 0.1 saved it after whole epochs only
        self.tokens = int(state_dict["tokens"])


class _Stderr:
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


class EpochLines(Callback):
    """A line on stderr for each epoch; on a terminal, also a bar with the time left, ignoring early stopping.

    In a log, lines are at least `LOG_INTERVAL` apart, except for the last epoch.
    """

    def __init__(self, name: str, clock: Clock, best: BestWeights, bar: bool = True) -> None:
        self.name = name
        self.clock, self.best = clock, best
        self.console = Console(file=cast(IO[str], _Stderr()))
        self.wants_bar = bar and self.console.is_terminal
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.validation = ""  # of this epoch

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.start = self.written = time.perf_counter()
        self.first_step = trainer.global_step
        if self.wants_bar:
            columns = BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeElapsedColumn()
            left = TextColumn("at most"), TimeRemainingColumn()
            self.bar = Progress(TextColumn("{task.description}"), *columns, *left, console=self.console, transient=True)
            steps = int(trainer.estimated_stepping_batches)
            self.task = self.bar.add_task(self.name, total=steps, completed=trainer.global_step)
            self.bar.start()

    def on_train_epoch_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.validation = ""

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=trainer.global_step)

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        metrics = trainer.callback_metrics
        self.validation = f", validation loss {metrics['validation_loss']:.3f}"
        if "validation_bleu" in metrics:
            self.validation += f", BLEU {metrics['validation_bleu']:.2f}"

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        now, epochs = time.perf_counter(), trainer.max_epochs or 0
        is_last = trainer.current_epoch + 1 == epochs or trainer.should_stop
        if not isinstance(module, TranslationModule) or not (
            self.console.is_terminal or is_last or now - self.written >= LOG_INTERVAL
        ):
            return
        self.written = now
        loss, tokens, seconds = module.epoch_loss(), module.epoch_tokens, self.clock.epoch_seconds
        steps, all_steps = trainer.global_step, int(trainer.estimated_stepping_batches)
        skipped = f", {module.skipped_steps} steps skipped" if module.skipped_steps else ""
        left = (now - self.start) / max(1, steps - self.first_step) * (all_steps - steps)
        self._write(
            f"epoch {trainer.current_epoch + 1}/{epochs}, loss {loss:.3f}{self.validation}, "
            f"{duration(seconds)}, {tokens / max(seconds, 1e-9):,.0f} tokens/s{skipped}"
            + ("" if is_last else f", at most {duration(left)} left")
        )

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._stop_bar()
        if self.best.is_out_of_patience:
            self._write(f"stopped: {self.best.patience} validations without improvement (training.patience)")

    def on_exception(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, exception: BaseException
    ) -> None:
        self._stop_bar()

    def _write(self, text: str) -> None:
        self.console.print(f"{self.name}: {text}", highlight=False, markup=False, soft_wrap=True)

    def _stop_bar(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def duration(seconds: float) -> str:
    """A time for humans: 8.3 s, 45 s, 12 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
