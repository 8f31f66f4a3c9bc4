"""The training loop, from the first step or the last checkpoint to the best model, and its progress on stderr.

Two files are kept: `last.ckpt`, with everything that an exact resumption needs, and the weights of the best validation.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from safetensors.torch import load_model, save_model
from torch.utils.data import DataLoader

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.saved import load
from seq2seq_attn.text.files import replacing
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule, Validate

LAST_CHECKPOINT, BEST_WEIGHTS = "last.ckpt", "best.safetensors"


class Interrupted(Exception):  # noqa: N818 - not an error
    """Training was interrupted with Ctrl-C; the last checkpoint is kept."""


class Fitted(NamedTuple):
    """The outcome of training; the translator has the weights of the best validation."""

    best: float  # value of the monitored metric
    epochs: int
    steps: int
    seconds: float  # of training and validation, including those before an interruption
    tokens_per_second: float  # target tokens per second, padding and validation excluded
    best_epoch: int | None  # of the best validation, counted from 1; None if an earlier version saw it
    stopped: Literal["patience", "max_epochs"]  # the option that ended training


@contextmanager
def fork_random_state() -> Iterator[None]:
    """Restores the random states of Python, NumPy and torch on exit: `torch.random.fork_rng` for everything that
    `lightning.seed_everything` sets, including its environment variables."""
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
    """Silences Lightning's advice about devices and workers, which users of this package cannot act on."""
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
    """Trains in place, with checkpoints in folder/checkpoints and curves in folder/log; then loads the best weights.

    `name` begins each line of progress; use `bar=False` if several runs share a terminal, None for no progress at all.

    Raises Interrupted on Ctrl-C, and UserError if training diverges or a checkpoint to resume from is corrupt.
    """
    module = TranslationModule(translator, config, validate)
    monitor, mode = f"validation_{config.monitor}", "max" if config.monitor == "bleu" else "min"
    checkpoints = folder / "checkpoints"
    best = BestWeights(checkpoints / BEST_WEIGHTS, monitor, mode)
    last = ModelCheckpoint(checkpoints, filename="last", save_on_train_epoch_end=True, enable_version_counter=False)
    clock = Clock()
    callbacks: list[Callback] = [clock, best, last]
    if config.patience is not None:
        # After each validation, before the end of the epoch, where `EpochLines` needs to know whether training stops.
        early = {"check_finite": False, "check_on_train_epoch_end": False}
        callbacks.append(EarlyStopping(monitor, mode=mode, patience=config.patience, **early))
    if bar is not None:
        callbacks.append(EpochLines(name, bar))
    trainer = lightning.Trainer(
        accelerator={"auto": "auto", "cpu": "cpu", "cuda": "gpu"}[config.accelerator],
        devices=1,
        precision={"fp32": "32-true", "bf16": "bf16-mixed"}[config.precision],  # type: ignore[arg-type]
        max_epochs=config.max_epochs,
        check_val_every_n_epoch=config.validate_every,
        callbacks=callbacks,
        plugins=[CheckpointFiles()],
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
    load_model(translator, best.path)
    return Fitted(
        best=math.nan if best.score is None else best.score,
        epochs=trainer.current_epoch,
        steps=trainer.global_step,
        seconds=clock.seconds,
        tokens_per_second=clock.tokens / max(clock.training_seconds, 1e-9),
        best_epoch=best.epoch,
        stopped="max_epochs" if config.patience is None or best.since < config.patience else "patience",
    )


class CheckpointFiles(TorchCheckpointIO):
    """Checkpoints as Lightning writes them, read by an allow-list of types instead of `torch.load`."""

    def load_checkpoint(self, path: str | Path, *_: Any, **__: Any) -> dict[str, Any]:
        checkpoint: dict[str, Any] = load(Path(path))
        return checkpoint


class BestWeights(Callback):
    """Saves the weights of the best validation in a file; in the checkpoints, its score, its epoch and its age."""

    def __init__(self, path: Path, monitor: str, mode: str) -> None:
        self.path = path
        self.monitor = monitor
        self.sign = 1 if mode == "max" else -1
        self.score: float | None = None
        self.epoch: int | None = None
        self.since = 0  # validations without improvement since the best one

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        score = float(trainer.callback_metrics[self.monitor])
        self.since += 1
        if isinstance(module, TranslationModule) and (self.score is None or self.sign * (score - self.score) > 0):
            self.score, self.epoch, self.since = score, trainer.current_epoch + 1, 0
            save_weights(module.translator, self.path)

    def state_dict(self) -> dict[str, Any]:
        return {"score": self.score, "epoch": self.epoch, "since": self.since}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.score = state_dict["score"]
        self.epoch, self.since = state_dict.get("epoch"), state_dict.get("since", 0)  # version 0.1 has only the score


def save_weights(translator: Translator, path: Path) -> None:
    """Writes the weights for `safetensors.torch.load_model`, atomically."""
    with replacing(path) as unfinished:
        save_model(translator, str(unfinished), metadata={"format": "seq2seq_attn"})


class Clock(Callback):
    """Counts the time and tokens of training; saved in checkpoints, so that a resumed run continues the count."""

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
    """The checkpoint's path. UserError: it is truncated or not a checkpoint, or its best weights are missing."""
    try:
        callbacks = load(checkpoint)["callbacks"]
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise UserError(
            f"{checkpoint}: truncated or not a checkpoint ({error}); start again with --overwrite"
        ) from None
    best = callbacks.get(BestWeights.__name__)
    if best is None:
        raise UserError(
            f"{checkpoint}: written by an earlier version, which kept the best weights differently; "
            f"continue the run with that version, or start again with --overwrite"
        )
    if best["score"] is not None and not (path := checkpoint.with_name(BEST_WEIGHTS)).exists():
        raise UserError(
            f"{path}: no such file; the run cannot continue without its best weights; start again with --overwrite"
        )
    return checkpoint


def _loggers(folder: Path) -> list[Logger]:
    """Curves as CSV, and for TensorBoard if it is installed (the extra `[tensorboard]`).

    A resumed run logs to the next version_N, because Lightning would delete the files of the previous one.
    """
    curves = CSVLogger(folder, name="log")
    if not importlib.util.find_spec("tensorboard"):
        return [curves]
    return [curves, TensorBoardLogger(folder, name="log", version=curves.version)]


LOG_INTERVAL = 10.0  # minimum seconds between the lines of a log; a terminal gets a line for every epoch


class EpochLines(Callback):
    """A line on stderr for each epoch; on a terminal, also a bar with the time left, ignoring early stopping.

    In a log, lines are at least `LOG_INTERVAL` apart, except for the last epoch.
    """

    def __init__(self, name: str, bar: bool = True) -> None:
        self.name = name
        self.console = Console(file=sys.stderr)
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
        self.epoch_start, self.validation = time.perf_counter(), ""

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
        loss, tokens = module.epoch_loss(), module.epoch_tokens
        steps, all_steps = trainer.global_step, int(trainer.estimated_stepping_batches)
        left = (now - self.start) / max(1, steps - self.first_step) * (all_steps - steps)
        self._write(
            f"epoch {trainer.current_epoch + 1}/{epochs}, loss {loss:.3f}{self.validation}, "
            f"{duration(now - self.epoch_start)}, {tokens / (now - self.epoch_start):,.0f} tokens/s"
            + ("" if is_last else f", at most {duration(left)} left")
        )

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._stop_bar()
        stopping = trainer.early_stopping_callback
        if isinstance(stopping, EarlyStopping) and stopping.stopped_epoch:
            self._write(f"stopped: {stopping.patience} validations without improvement (training.patience)")

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
