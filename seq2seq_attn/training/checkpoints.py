"""Checkpoints, from which training continues exactly: tensors and plain values, in one file of safetensors.

A run has two: the last one, and the one before it in case the last one is damaged. Beside them may be the weights of
its last epochs, to average them. The SHA-256 of each is in the run's `SHA256SUMS`.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked, read_sums, recording, write_recorded
from seq2seq_attn.files.reading import sha256
from seq2seq_attn.files.writing import explained, rename, replacing
from seq2seq_attn.saved import weights_content
from seq2seq_attn.training import LAST, PREVIOUS
from seq2seq_attn.training.randomness import RandomStates


@dataclass(config=ConfigDict(strict=True, extra="forbid"))
class TrainingState:
    """What a training has done so far, besides its tensors; the counts include those of an epoch under way."""

    epoch: NonNegativeInt = 0  # epochs that have ended
    batch: NonNegativeInt = 0  # batches of the epoch under way
    step: NonNegativeInt = 0  # steps of the optimizer, those that were skipped included
    tokens: NonNegativeInt = 0  # target tokens, padding excluded
    epoch_tokens: NonNegativeInt = 0
    skipped_steps: NonNegativeInt = 0  # whose loss or gradient was not finite
    split_steps: NonNegativeInt = 0  # whose batch was halved because memory ran out
    seconds: NonNegativeFloat = 0.0  # of training and validation
    training_seconds: NonNegativeFloat = 0.0
    epoch_seconds: NonNegativeFloat = 0.0
    best_score: float | None = None  # of the monitored metric
    best_epoch: NonNegativeInt | None = None  # counted from 1
    since_best: NonNegativeInt = 0  # validations that count against `patience`
    optimizer: dict[str, Any] = field(default_factory=dict)  # its configuration in this phase of the training
    phase_step: NonNegativeInt = 0  # steps before this phase, whose schedule begins here
    plateau: tuple[float, NonNegativeInt, float] | None = None  # best score, bad validations, learning rate
    curve: list[dict[str, int | float]] = field(default_factory=list)  # the rows of the log
    data: dict[str, Any] = field(default_factory=dict)  # where the dataset is in its epoch


@dataclass(config=ConfigDict(strict=True, extra="forbid"))
class _Values:
    """The plain values of a checkpoint; `python` and `numpy` as in `RandomStates`."""

    state: TrainingState
    python: list[Any]
    numpy: list[Any]
    others: list[tuple[list[Any], list[Any]]] = field(default_factory=list)  # of further processes; left out if none


_VALUES = TypeAdapter(_Values)
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Checkpoint(NamedTuple):
    """What training continues from."""

    state: TrainingState
    tensors: dict[str, Tensor]
    random: Sequence[RandomStates]  # of each process


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes it beside the last one, reads it back, and keeps the last one as the one before it.

    UserError: it cannot be written, or reads otherwise than it was written.
    """
    tensors = dict(checkpoint.tensors)
    for rank, random in enumerate(checkpoint.random):
        states = {"torch": random.torch} | {f"cuda.{device}": state for device, state in enumerate(random.cuda)}
        tensors |= {f"{_random(rank)}{name}": state for name, state in states.items()}
    first, *others = ((each.python, each.numpy) for each in checkpoint.random)
    values = vars(_Values(checkpoint.state, *first, others))
    metadata = {"values": json.dumps({k: v for k, v in values.items() if others or k != "others"}, default=vars)}
    written = hashlib.sha256()

    def install(unfinished: Path, path: Path) -> None:
        if sha256(unfinished) != written.hexdigest():
            raise UserError(f"{path}: the new checkpoint cannot be read back as it was written; check the disk")
        # What was recorded for the last one, not what it is now: damage since then must show.
        before = next(iter(read_sums(folder).get(LAST, ())), None) if path.exists() else None
        sums: dict[str, str | None] = {LAST: written.hexdigest()}
        with recording(folder, sums if before is None else sums | {PREVIOUS: before}):
            if before is not None:
                rename(path, folder / PREVIOUS)
            rename(unfinished, path)

    path = folder / LAST
    with replacing(path, install) as unfinished, explained(path), unfinished.open("wb") as file:
        for piece in _safetensors(tensors, metadata):
            written.update(piece)
            file.write(piece)


def _safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """A file of safetensors in pieces, one per tensor.

    `safetensors.torch.save` would hold all of it in memory; `save_file` would hold the tensors of a GPU, and write a
    temporary file of its own, which a killed process leaves behind.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [start, end]}
    content = json.dumps(header).encode()
    content += b" " * (-len(content) % 8)
    yield struct.pack("<Q", len(content)) + content
    for tensor in tensors.values():
        yield tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _random(rank: int) -> str:
    """How the names of the random states of a process begin."""
    return f"random.{rank}." if rank else "random."


def read_checkpoint(
    folder: Path,
    expected: Mapping[str, Tensor],
    say: Callable[[str], object],
    optional: str | None = None,
) -> Checkpoint:
    """The last checkpoint of a run, or the one before it if that is damaged, as `say` tells; it is then the last one.

    Damaged is also one whose tensors do not have the names, shapes and types of the `expected` ones, of which only
    those that begin with `optional` may be missing. The random states of the process become those of the first process
    of the checkpoint.

    UserError: neither is whole.
    """
    for name in (LAST, PREVIOUS):
        path = folder / name
        try:
            checkpoint = _read(checked(folder, name))
            _require_alike(checkpoint.tensors, expected, optional)
            checkpoint.random[0].restore()
        except (UserError, OSError):
            continue
        except (ValueError, TypeError, OverflowError, RuntimeError) as error:
            say(f"{path}: {error}")
            continue
        if name == PREVIOUS and (folder / LAST).exists():
            say(f"{folder / LAST}: damaged; continuing from the checkpoint before it, {PREVIOUS}")
        with explained(folder / LAST):
            last: dict[str, str | None] = {LAST: sha256(path)}
            with recording(folder, last if name == LAST else last | {PREVIOUS: None}):
                if name == PREVIOUS:
                    rename(path, folder / LAST)
        return checkpoint
    raise UserError(
        f"{folder / LAST}: damaged, or not a checkpoint of this program, and there is no whole one before it; "
        f"train the run again with --overwrite"
    )


def read_last(folder: Path) -> Checkpoint:
    """The last checkpoint, and none before it: that which another process has continued from, with `read_checkpoint`.

    Random states as there. UserError: it is damaged.
    """
    checkpoint = _last(folder)
    checkpoint.random[0].restore()
    return checkpoint


def trained_state(folder: Path) -> TrainingState:
    """That of the checkpoint that a run would continue from; of a training not begun if there is none that is whole."""
    for name in (LAST, PREVIOUS):
        with suppress(UserError, OSError, ValueError):
            return _values(checked(folder, name)).state
    return TrainingState()


def read_optimizer(folder: Path) -> tuple[TrainingState, dict[str, Tensor]]:
    """The state of a run at its last checkpoint, and what its optimizer kept of the weights: `optimizer.WEIGHT.KEY`.

    UserError: there is no checkpoint, or it is damaged.
    """
    if not (folder / LAST).exists():
        raise UserError(f"{folder / LAST}: no such file; a run without its checkpoints has no optimizer")
    found = _last(folder)
    return found.state, {name: tensor for name, tensor in found.tensors.items() if name.startswith("optimizer.")}


def _last(folder: Path) -> Checkpoint:
    path = checked(folder, LAST)
    try:
        return _read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: damaged, or not a checkpoint of this program: {error}") from None


def _values(path: Path) -> _Values:
    """ValueError: it is not a checkpoint. OSError: it cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return _VALUES.validate_json((file.metadata() or {}).get("values", ""))
    except SafetensorError as error:
        raise ValueError(f"not a file of safetensors ({error})") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _read(path: Path) -> Checkpoint:
    """All of it. Errors as in `_values`."""
    values = _values(path)
    with safe_open(path, framework="pt") as file:
        # Copies, because Windows renames no file that is mapped into memory.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a mapping
    random = {name: tensors.pop(name) for name in list(tensors) if name.startswith("random.")}
    states = []
    for rank, (python, numpy) in enumerate([(values.python, values.numpy), *values.others]):
        if (state := random.pop(f"{_random(rank)}torch", None)) is None:
            raise ValueError(f"{_random(rank)}torch: missing")
        cuda = [random[name] for name in random if name.startswith(f"{_random(rank)}cuda.")]
        states.append(RandomStates(python, numpy, state, cuda))
    return Checkpoint(values.state, tensors, states)


def _require_alike(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], optional: str | None) -> None:
    """ValueError, with the name, unless both have the same tensors, apart from their values and the optional ones."""
    for name in sorted(found.keys() ^ expected.keys()):
        if name in expected and optional is not None and name.startswith(optional):
            continue
        raise ValueError(f"{name}: {'missing' if name in expected else 'not a tensor of this training'}")
    for name, tensor in found.items():
        kinds = [f"{each.dtype} {tuple(each.shape)}" for each in (tensor, expected[name])]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{name}: {kinds[0]} where {kinds[1]} belongs")


def keep_epoch(folder: Path, model: nn.Module, epoch: int, count: int) -> None:
    """Keeps the weights of this epoch, and those of the `count` - 1 before it: as trained, not their moving average."""
    write_recorded(folder, {f"checkpoints/epoch-{epoch}.safetensors": weights_content(model)})
    for old, name in kept_epochs(folder).items():
        if not epoch - count < old <= epoch:
            with recording(folder, {name: None}), explained(folder / name):
                (folder / name).unlink()


def kept_epochs(folder: Path) -> dict[int, str]:
    """The files with the weights of single epochs in a run folder, by epoch, from the first."""
    names = (path.relative_to(folder).as_posix() for path in folder.glob("checkpoints/epoch-*.safetensors"))
    return dict(sorted((int(found[1]), name) for name in names if (found := re.search(r"-(\d+)\.", name))))
