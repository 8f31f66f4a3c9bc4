"""Checkpoints, from which training continues exactly: after each epoch, and within it as often as is cheap.

A run has two: `last.ckpt`, and `previous.ckpt` in case the last one is damaged. Beside them may be the weights of its
last epochs, to average them. All are recorded in its `SHA256SUMS`.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import lightning
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback, Checkpoint

from seq2seq_attn.errors import UserError
from seq2seq_attn.reading import sha256
from seq2seq_attn.saved import load, weights_content
from seq2seq_attn.text.checksums import checked, read_sums, recording, write_recorded
from seq2seq_attn.text.files import explained, rename, replacing
from seq2seq_attn.training import LAST, PREVIOUS
from seq2seq_attn.training.batches import LengthBuckets
from seq2seq_attn.training.checkpoint_layout import require_layout
from seq2seq_attn.training.module import TranslationModule

# Within an epoch, checkpoints are written at least this long after each other, and take at most this share of the time.
INTERVAL = 60.0  # seconds
SHARE = 0.02


class Checkpoints(Checkpoint):
    """Writes `last.ckpt` after each epoch, and within it when the last one is old enough (`INTERVAL`, `SHARE`).

    A run that is killed loses at most the time since the last checkpoint, and repeats it exactly.
    """

    def __init__(self, folder: Path, batches: LengthBuckets) -> None:
        self.path = folder / LAST
        self.batches = batches
        self.done = 0  # batches of this epoch that the checkpoint contains
        self.due = 0.0

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.due = time.perf_counter() + INTERVAL
        if self.done and isinstance(module, TranslationModule):
            self.batches.first = self.done
            module.restore_random_states()  # the loader has drawn since they were loaded, but not within an epoch

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # After the last batch comes the validation, and then the checkpoint of the epoch.
        if time.perf_counter() >= self.due and batch_idx + 1 < len(self.batches):
            self._save(trainer, batch_idx + 1)

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._save(trainer, 0)

    def _save(self, trainer: lightning.Trainer, done: int) -> None:
        start = time.perf_counter()
        self.done = done
        for logger in trainer.loggers:
            logger.save()  # a resumed run logs only what comes after the checkpoint
        trainer.save_checkpoint(self.path)
        end = time.perf_counter()
        self.due = end + max(INTERVAL, (end - start) / SHARE)

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.done = state_dict["done"]


class KeptEpochs(Callback):
    """Keeps the weights of the last `count` epochs: those that are trained, not their moving average.

    Lightning calls it before `Checkpoints`, so an epoch that a checkpoint contains has its file.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if not self.count or not isinstance(module, TranslationModule):
            return
        epoch = trainer.current_epoch + 1
        write_recorded(self.folder, {f"checkpoints/epoch-{epoch}.safetensors": weights_content(module.translator)})
        for old, name in kept_epochs(self.folder).items():
            if not epoch - self.count < old <= epoch:
                with recording(self.folder, {name: None}), explained(self.folder / name):
                    (self.folder / name).unlink()


def kept_epochs(folder: Path) -> dict[int, str]:
    """The files with the weights of single epochs in a run folder, by epoch, from the first."""
    names = (path.relative_to(folder).as_posix() for path in folder.glob("checkpoints/epoch-*.safetensors"))
    return dict(sorted((int(found[1]), name) for name in names if (found := re.search(r"-(\d+)\.", name))))


class SafeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside `last.ckpt`, reads it back, and keeps the one before it as `previous.ckpt`."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        folder = path.parents[1]
        written = ""

        def install(unfinished: Path, path: Path) -> None:
            if sha256(unfinished) != written:
                raise UserError(f"{path}: the new checkpoint cannot be read back as it was written; check the disk")
            # What was recorded for the last one, not what it is now: damage since then must show.
            before = next(iter(read_sums(folder).get(LAST, ())), None) if path.exists() else None
            sums: dict[str, str | None] = {LAST: written}
            with recording(folder, sums if before is None else sums | {PREVIOUS: before}):
                if before is not None:
                    rename(path, folder / PREVIOUS)
                rename(unfinished, path)

        with replacing(path, install) as unfinished, explained(path), unfinished.open("wb") as file:
            written = _save(checkpoint, file)

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Reads it by an allow-list of types, instead of `torch.load`."""
        checkpoint: dict[str, Any] = load(Path(path))
        return checkpoint


class _Summed:
    """A file to write, and the checksum of what was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sum, self.error = file, hashlib.sha256(), OSError()

    def write(self, piece: memoryview) -> int:
        self.sum.update(piece)
        try:
            return self.file.write(piece)
        except OSError as error:
            self.error = error  # torch reports it as a fault of the format
            raise

    def flush(self) -> None:
        self.file.flush()


def _save(checkpoint: dict[str, Any], file: BinaryIO) -> str:
    """Writes a checkpoint and returns its SHA-256. OSError: the file cannot be written."""
    summed = _Summed(file)
    try:
        torch.save(checkpoint, cast(IO[bytes], summed))  # it needs no more of a file than this
    except RuntimeError:
        if summed.error.errno is None:
            raise
        raise summed.error from None
    return summed.sum.hexdigest()


def load_checkpoint(folder: Path, module: TranslationModule, say: Callable[[str], object]) -> dict[str, Any]:
    """The last checkpoint of a run, which is then `last.ckpt`, or the one before it if that is damaged, as `say` tells.

    Damaged is also one whose tensors are not those of the module.

    UserError: neither is whole.
    """
    for name in (LAST, PREVIOUS):
        if (checkpoint := _load(folder, name)) is None:
            continue
        try:
            require_layout(checkpoint, module, module.translator)
        except ValueError as error:
            say(f"{folder / name}: {error}")
            continue
        if name == PREVIOUS and (folder / LAST).exists():
            say(f"{folder / LAST}: damaged; continuing from the checkpoint before it, {PREVIOUS}")
        with explained(folder / LAST):
            last: dict[str, str | None] = {LAST: sha256(folder / name)}
            with recording(folder, last if name == LAST else last | {PREVIOUS: None}):
                if name == PREVIOUS:
                    rename(folder / PREVIOUS, folder / LAST)
        return checkpoint
    raise UserError(
        f"{folder / LAST}: damaged, or not a checkpoint of this program, and there is no whole one before it; "
        f"train the run again with --overwrite"
    )


def ended_epochs(checkpoint: dict[str, Any]) -> tuple[int, int]:
    """How many epochs a checkpoint contains, without the one that it is within, and how many steps these had."""
    within: int = checkpoint["callbacks"].get("Checkpoints", {"done": 0})["done"]  # steps of an epoch without its end
    epoch: int = checkpoint["epoch"]
    return epoch + (not within), checkpoint["global_step"] - within


def trained_epochs(folder: Path) -> int:
    """The epochs of the checkpoint that a run would continue from; 0 if there is none that is whole."""
    checkpoint = _load(folder, LAST) or _load(folder, PREVIOUS)
    return 0 if checkpoint is None else ended_epochs(checkpoint)[0]


def _load(folder: Path, name: str) -> dict[str, Any] | None:
    """None if the file is missing or damaged."""
    try:
        checkpoint: dict[str, Any] = load(checked(folder, name))
        ended_epochs(checkpoint)
    except (UserError, OSError, ValueError, TypeError, LookupError):
        return None
    return checkpoint
