"""Progress on stderr: a bar with a time estimate on a terminal, otherwise one line per validation."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seq2seq_attn.training.module import TranslationModule


class ProgressLine(Callback):
    """Shows steps done and the maximum, the remaining time without early stopping, and the last validation."""

    def __init__(self, name: str, bar: bool = True) -> None:
        self.name = name
        self.console = Console(file=sys.stderr)
        self.wants_bar = bar and self.console.is_terminal
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.last = ""

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.started, self.first_step = time.perf_counter(), trainer.global_step
        if self.wants_bar:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total} steps"),
                TimeElapsedColumn(),
                TextColumn("at most"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[last]}"),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task(
                self.name,
                total=int(trainer.estimated_stepping_batches),
                completed=trainer.global_step,
                last=self.last,
            )
            self.bar.start()

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=trainer.global_step, last=self.last)

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.sanity_checking or not isinstance(module, TranslationModule):
            return
        metrics = trainer.callback_metrics
        parts = [f"validation loss {metrics['validation_loss']:.3f}"]
        if "validation_bleu" in metrics:
            parts.append(f"BLEU {metrics['validation_bleu']:.2f}")
        self.last = ", ".join(parts)
        if self.bar is None:
            seconds = time.perf_counter() - self.started
            done, total = trainer.global_step - self.first_step, int(trainer.estimated_stepping_batches)
            left = seconds / max(1, done) * (total - trainer.global_step)
            self.console.print(
                f"{self.name}: epoch {trainer.current_epoch + 1}, step {trainer.global_step}/{total}, {self.last}, "
                f"{module.tokens / seconds:,.0f} tokens/s, at most {left / 60:.1f} min left",
                highlight=False,
                soft_wrap=True,
            )

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if self.bar is not None:
            self.bar.stop()

    def on_exception(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, exception: BaseException
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
