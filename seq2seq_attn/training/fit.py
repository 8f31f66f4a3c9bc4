"""The training loop, from the first step or the last checkpoint to the best model, and its progress on stderr."""

from __future__ import annotations

import importlib.util
import logging
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils.data import DataLoader

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule, Validate

LAST_CHECKPOINT = "last.ckpt"


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was interrupted with Ctrl-C; the last checkpoint is kept."""


class Fitted(NamedTuple):
    """The outcome of training; the translator has the weights of the best validation."""

    best: float  # value of the monitored metric
    epochs: int
    steps: int
    seconds: float  # of training and validation, including those before an interruption
    tokens_per_second: float  # target tokens per second, padding and validation excluded


@contextmanager
def fork_random_state() -> Iterator[None]:
    """Restores the random states of Python, NumPy and torch at the end: `torch.random.fork_rng` for all that
    `lightning.seed_everything` sets, its environment variables included."""
    names = "PL_GLOBAL_SEED", "PL_SEED_WORKERS"
    variables = {name: os.environ.get(name) for name in names}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _lightning_muted() -> Iterator[None]:
    """Silences Lightning's advice about devices and workers, which is not for users of this package."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@_lightning_muted()
def fit(
    translator: Translator,
    config: TrainingConfig,
    training: DataLoader[Batch],
    validation: DataLoader[Batch],
    validate: Validate | None,
    folder: Path,
    name: str = "training",
    *,
    resume: bool = False,
    bar: bool | None = True,
) -> Fitted:
    """Train in place, with checkpoints in folder/checkpoints and curves in folder/log; then load the best weights.

    Raises Interrupted on Ctrl-C, and UserError if training diverges or a checkpoint to resume from is corrupt.
    """
    module = TranslationModule(translator, config, validate)
    monitor, mode = f"validation_{config.monitor}", "max" if config.monitor == "bleu" else "min"
    checkpoints = folder / "checkpoints"
    best = ModelCheckpoint(checkpoints, filename="best", monitor=monitor, mode=mode, enable_version_counter=False)
    last = ModelCheckpoint(checkpoints, filename="last", save_on_train_epoch_end=True, enable_version_counter=False)
    clock = Clock()
    callbacks: list[Callback] = [clock, best, last, *([] if bar is None else [ProgressLine(name, bar)])]
    if config.patience is not None:
        callbacks.append(EarlyStopping(monitor, mode=mode, patience=config.patience, check_finite=False))
    trainer = lightning.Trainer(
        accelerator={"auto": "auto", "cpu": "cpu", "cuda": "gpu"}[config.accelerator],
        devices=1,
        precision={"fp32": "32-true", "bf16": "bf16-mixed"}[config.precision],  # type: ignore[arg-type]
        max_epochs=config.max_epochs,
        check_val_every_n_epoch=config.validate_every,
        callbacks=callbacks,
        logger=_loggers(folder),
        log_every_n_steps=10,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    start = _checked(checkpoints / LAST_CHECKPOINT) if resume else None
    try:
        trainer.fit(module, training, validation, ckpt_path=start, weights_only=True)
    except (KeyboardInterrupt, SystemExit) as stop:  # Lightning turns the first into the second
        raise Interrupted from stop
    if trainer.interrupted:
        raise Interrupted
    weights = torch.load(best.best_model_path, map_location="cpu", weights_only=True)["state_dict"]
    module.load_state_dict(weights)
    score = best.best_model_score
    return Fitted(
        best=float("nan") if score is None else score.item(),
        epochs=trainer.current_epoch,
        steps=trainer.global_step,
        seconds=clock.seconds,
        tokens_per_second=clock.tokens / max(clock.training_seconds, 1e-9),
    )


class Clock(Callback):
    """Counts the time and tokens of training; saved in the checkpoint, so that a resumed run continues to count."""

    def __init__(self) -> None:
        self.seconds = self.training_seconds = 0.0
        self.tokens = 0
        self._counted = 0

    def on_train_epoch_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._start = self._mark = time.perf_counter()

    def on_validation_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._stop_training(module)

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._stop_training(module)
        self.seconds += time.perf_counter() - self._start

    def _stop_training(self, module: lightning.LightningModule) -> None:
        if isinstance(module, TranslationModule) and module.tokens > self._counted:
            self.training_seconds += time.perf_counter() - self._mark
            self.tokens += module.tokens - self._counted
            self._counted = module.tokens

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds, "training_seconds": self.training_seconds, "tokens": self.tokens}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.seconds, self.training_seconds = state_dict["seconds"], state_dict["training_seconds"]
        self.tokens = int(state_dict["tokens"])


def _checked(checkpoint: Path) -> Path:
    """The checkpoint's path. Raises UserError if the file is truncated or not a checkpoint."""
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True)["optimizer_states"]
    except Exception as error:  # the type depends on how the file is damaged
        raise UserError(
            f"{checkpoint}: not a whole checkpoint ({type(error).__name__}); start again with --overwrite"
        ) from None
    return checkpoint


def _loggers(folder: Path) -> list[Logger]:
    """Curves as CSV, and for TensorBoard if it is installed (the extra `[tensorboard]`).

    A resumed run logs to the next version_N, because Lightning would delete the files of the previous one.
    """
    curves = CSVLogger(folder, name="log")
    if not importlib.util.find_spec("tensorboard"):
        return [curves]
    return [curves, TensorBoardLogger(folder, name="log", version=curves.version)]


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
