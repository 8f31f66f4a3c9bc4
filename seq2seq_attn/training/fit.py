"""The training loop, from the first step or the last checkpoint to the best model, and its progress on stderr."""

from __future__ import annotations

import copy
import importlib.util
import logging
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from safetensors.torch import load_model
from torch.utils.data import DataLoader

from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.ops.host import is_out_of_memory
from seq2seq_attn.training import LAST
from seq2seq_attn.training.batches import Batch, LengthBuckets
from seq2seq_attn.training.checkpoints import Checkpoints, SafeCheckpointIO, load_checkpoint
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.module import TranslationModule, Validate


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
    skipped_steps: int  # whose loss or gradient was not finite
    split_steps: int  # whose batch was halved because memory ran out


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
    say: Callable[[str], object] = lambda _: None,
) -> Fitted:
    """Trains in place, with checkpoints in folder/checkpoints and curves in folder/log; then loads the best weights.

    With `resume`, training continues from the last checkpoint, and a training that had ended does nothing more, unless
    `config` now allows more epochs or more patience. `name` begins each line of progress; use `bar=False` if several
    runs share a terminal, None for no progress at all.

    Raises Interrupted on Ctrl-C, and UserError if training diverges or a checkpoint to resume from is corrupt.
    """
    buckets = training.sampler
    if not isinstance(buckets, LengthBuckets):
        raise TypeError("the training batches must come from training.batches.loader")
    module = TranslationModule(translator, config, validate)
    monitor, mode = f"validation_{config.monitor}", "max" if config.monitor == "bleu" else "min"
    best, clock = BestWeights(monitor, mode, config.patience), Clock()
    epochs, steps, start = 0, 0, None
    if resume:
        checkpoint = load_checkpoint(folder, say)
        states = checkpoint["callbacks"]
        best.load_state_dict(states["BestWeights"])
        if best.score is not None and not best.weights:
            best.weights = _weights_of_earlier_version(translator, folder)
        clock.load_state_dict(states["Clock"])
        # Here, because a training that had ended does not load its checkpoint; not in those of earlier versions.
        module.skipped_steps, module.split_steps = checkpoint.get("skipped_steps", 0), checkpoint.get("split_steps", 0)
        within_epoch = states.get("Checkpoints", {"done": 0})["done"]
        epochs, steps, start = checkpoint["epoch"] + (not within_epoch), checkpoint["global_step"], folder / LAST
    if epochs < config.max_epochs and not best.is_out_of_patience:
        callbacks: list[Callback] = [clock, best, Checkpoints(folder, buckets)]
        if bar is not None:
            callbacks.append(EpochLines(name, clock, best, bar))
        trainer = lightning.Trainer(
            accelerator={"auto": "auto", "cpu": "cpu", "cuda": "gpu"}[config.accelerator],
            devices=1,
            precision={"fp32": "32-true", "bf16": "bf16-mixed"}[config.precision],  # type: ignore[arg-type]
            max_epochs=config.max_epochs,
            check_val_every_n_epoch=config.validate_every,
            callbacks=callbacks,
            plugins=[SafeCheckpointIO()],
            logger=_loggers(folder),
            log_every_n_steps=10,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        try:
            trainer.fit(module, training, validation, ckpt_path=start, weights_only=True)
        except (KeyboardInterrupt, SystemExit) as stop:  # Lightning turns the first into the second
            raise Interrupted from stop
        except OSError as error:  # of a logger: checkpoints have messages of their own
            raise UserError(f"{file_of(error, folder)}: cannot be written: {error.strerror}") from None
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                f"memory ran out; lower training.batch_size={config.batch_size}, and start again with --overwrite"
            ) from None
        if trainer.interrupted:
            raise Interrupted
        epochs, steps = trainer.current_epoch, trainer.global_step
    translator.load_state_dict(best.weights)
    return Fitted(
        best=math.nan if best.score is None else best.score,
        epochs=epochs,
        steps=steps,
        seconds=clock.seconds,
        tokens_per_second=clock.tokens / max(clock.training_seconds, 1e-9),
        best_epoch=best.epoch,
        stopped="patience" if best.is_out_of_patience else "max_epochs",
        skipped_steps=module.skipped_steps,
        split_steps=module.split_steps,
    )


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
        self.since += 1
        if isinstance(module, TranslationModule) and self._is_better(score):
            self.score, self.epoch, self.since = score, trainer.current_epoch + 1, 0
            self.weights = copy.deepcopy(module.translator.state_dict())
        trainer.should_stop |= self.is_out_of_patience

    def _is_better(self, score: float) -> bool:
        """Whether a score is better than the best one; any number is better than a score that is not one.

        A BLEU of 0 tells nothing of what was learnt, and the first epochs may have no other: the latest is the best.
        """
        if self.score is None or math.isnan(self.score):
            return self.score is None or not math.isnan(score)
        if self.sign > 0 and self.score == 0:
            return not math.isnan(score)
        return self.sign * (score - self.score) > 0

    def state_dict(self) -> dict[str, Any]:
        return {"score": self.score, "epoch": self.epoch, "since": self.since, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.score, self.weights = state_dict["score"], state_dict.get("weights", self.weights)
        self.epoch, self.since = state_dict.get("epoch"), state_dict.get("since", 0)  # version 0.1 has only the score


def _weights_of_earlier_version(translator: Translator, folder: Path) -> dict[str, torch.Tensor]:
    """The best weights of a run of version 0.1: in a file of their own, after its end in that of the model."""
    for path in (folder / "checkpoints" / "best.safetensors", folder / "model.safetensors"):
        if path.exists():
            best = copy.deepcopy(translator)
            load_model(best, path)
            return best.state_dict()
    raise UserError(
        f"{path}: no such file; the run cannot continue without its best weights; start again with --overwrite"
    )


class Clock(Callback):
    """Counts the time and tokens of training; saved in checkpoints, so that a resumed run continues the count."""

    def __init__(self) -> None:
        self.seconds = self.training_seconds = 0.0
        self.epoch_seconds = 0.0  # of this epoch, its validation included
        self.tokens = 0
        self._counted = 0

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
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


def _loggers(folder: Path) -> list[Logger]:
    """Curves as CSV, and for TensorBoard if it is installed (the extra `[tensorboard]`).

    A resumed run logs to the next version_N, because Lightning would delete the files of the previous one.
    """
    curves = CSVLogger(folder, name="log")
    if not importlib.util.find_spec("tensorboard"):
        return [curves]
    return [curves, TensorBoardLogger(folder, name="log", version=curves.version)]


LOG_INTERVAL = 10.0  # minimum seconds between the lines of a log; a terminal gets a line for every epoch


class _Stderr:
    """stderr, where what cannot be written is lost: a full disk or a closed terminal must not end a training."""

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
