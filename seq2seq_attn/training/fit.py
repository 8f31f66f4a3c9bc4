"""Training from the first step, or the last checkpoint, to the best model."""

from __future__ import annotations

import importlib.util
import logging
import os
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch.utils.data import DataLoader

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule, Validate
from seq2seq_attn.training.progress import ProgressLine

LAST = "last.ckpt"


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """Ctrl-C during training; the last checkpoint is kept."""


class Fitted(NamedTuple):
    """What came of training; the translator holds the best validation's weights."""

    best: float  # of the monitored figure
    epochs: int
    steps: int
    seconds: float  # of training and validation, those before an interruption included
    tokens_per_second: float  # real target tokens a second, validation excluded


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
    bar: bool = True,
) -> Fitted:
    """Trains in place, with checkpoints in folder/checkpoints and curves in folder/log; loads the best weights."""
    module = TranslationModule(translator, config, validate)
    monitor, mode = f"validation_{config.monitor}", "max" if config.monitor == "bleu" else "min"
    checkpoints = folder / "checkpoints"
    best = ModelCheckpoint(checkpoints, filename="best", monitor=monitor, mode=mode, enable_version_counter=False)
    last = ModelCheckpoint(checkpoints, filename="last", save_on_train_epoch_end=True, enable_version_counter=False)
    clock = Clock()
    callbacks: list[Callback] = [clock, best, last, ProgressLine(name, bar)]
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
    start = _whole(checkpoints / LAST) if resume else None
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
    """Time and tokens of training, carried over an interruption by the checkpoint."""

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


def _whole(checkpoint: Path) -> Path:
    """The checkpoint, if it can be read; UserError if it is truncated or foreign."""
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True)["optimizer_states"]
    except Exception as error:  # torch raises a different one for every way in which a file can be broken
        raise UserError(
            f"{checkpoint}: not a whole checkpoint ({type(error).__name__}); begin anew with --overwrite"
        ) from None
    return checkpoint


def _loggers(folder: Path) -> list[Logger]:
    """Curves as CSV always, for TensorBoard where it is installed (the extra `[tensorboard]`).

    A resumed training logs into the next version_N: Lightning would delete what the one before it wrote.
    """
    curves = CSVLogger(folder, name="log")
    if not importlib.util.find_spec("tensorboard"):
        return [curves]
    return [curves, TensorBoardLogger(folder, name="log", version=curves.version)]
