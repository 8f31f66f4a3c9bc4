"""The training loop, from the first step or the last checkpoint to the best model."""

from __future__ import annotations

import copy
import importlib.util
import logging
import math
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from safetensors.torch import load_model
from torch.utils.data import DataLoader

from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.ops.host import device_type, is_out_of_memory
from seq2seq_attn.training import LAST
from seq2seq_attn.training.batches import Batch, LengthBuckets
from seq2seq_attn.training.callbacks import BestWeights, Clock, EpochLines
from seq2seq_attn.training.checkpoints import Checkpoints, KeptEpochs, SafeCheckpointIO, ended_epochs, load_checkpoint
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

    With `resume`, training continues from the last checkpoint, and a run that had ended does nothing more, unless
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
        checkpoint = load_checkpoint(folder, module, say)
        states = checkpoint["callbacks"]
        best.load_state_dict(states["BestWeights"])
        if best.score is not None and not best.weights:
            best.weights = _weights_of_earlier_version(translator, folder)
        clock.load_state_dict(states["Clock"])
        # Here, because a run that had ended does not load its checkpoint; not in those of earlier versions.
        module.skipped_steps, module.split_steps = checkpoint.get("skipped_steps", 0), checkpoint.get("split_steps", 0)
        (epochs, steps), start = ended_epochs(checkpoint), folder / LAST
        config.require_epochs(epochs, folder)
    if epochs < config.max_epochs and not best.is_out_of_patience:
        callbacks: list[Callback] = [clock, best, KeptEpochs(folder, config.keep_epochs), Checkpoints(folder, buckets)]
        if bar is not None:
            callbacks.append(EpochLines(name, clock, best, bar))
        trainer = lightning.Trainer(
            # Not "auto", which would also choose kinds of devices that nothing else here knows.
            accelerator=device_type(config.accelerator),
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
        except Exception as error:
            if is_out_of_memory(error):
                raise UserError(
                    f"memory ran out; lower training.batch_size={config.batch_size}, and start again with --overwrite"
                ) from None
            if isinstance(error, UserError) or start is None or clock.has_started:
                raise
            raise UserError(  # one of Lightning's counters, which `load_checkpoint` does not know
                f"{start}: not a checkpoint of this program ({type(error).__name__}: {error}); train the run again "
                f"with --overwrite"
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


def _loggers(folder: Path) -> list[Logger]:
    """Curves as CSV, and for TensorBoard if it is installed (the extra `[tensorboard]`).

    A resumed run logs to the next version_N, because Lightning would delete the files of the previous one.
    """
    curves = CSVLogger(folder, name="log")
    if not importlib.util.find_spec("tensorboard"):
        return [curves]
    return [curves, TensorBoardLogger(folder, name="log", version=curves.version)]
