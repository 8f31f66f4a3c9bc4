"""The folder of a run: what marks it, what in it belongs to the run, and what may happen to it.

A folder is a run if it holds the marker that `train` writes before anything else. Of such a folder only files that a
run makes are ever removed; whatever else lies there is refused by name, before anything happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from seq2seq_attn.config import Config
from seq2seq_attn.strict import load
from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import explained, write_bytes

IfExists = Literal["refuse", "resume", "overwrite"]

MARKER = "run.json"
CONFIG, MODEL, METRICS = "config.yaml", "model.safetensors", "metrics.json"
LAST = "checkpoints/last.ckpt"
MAY_CHANGE = ("max_epochs", "patience")  # of training, on resuming: how long, not what

# All that a run makes, relative to its folder.
_OWN = (
    MARKER,
    CONFIG,
    MODEL,
    METRICS,
    "provenance.json",
    "lexicon.safetensors",
    *(f"{side}.{rest}" for side in ("source", "target", "joint") for rest in ("*.json", "*.txt", "*.model")),
    "test.*.txt",
    "checkpoints/*.ckpt",
    "log/version_*/*",
    "*.part",
    "checkpoints/*.part",
)


def may_resume(config: Config, folder: Path, if_exists: IfExists) -> bool:
    """True if the folder's training is to be continued, False if one begins; UserError if it may not be touched."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / MARKER).is_file():
        raise UserError(
            f"{folder}: exists and is not a run of `train` (no {MARKER}); name another folder with --output"
        )
    if if_exists == "refuse":
        raise UserError(f"{folder}: this run exists; continue it with --resume or replace it with --overwrite")
    if if_exists == "resume" and (folder / CONFIG).exists():
        refuse_other_config(config, folder)
        if (folder / LAST).exists():
            return True
        if (folder / MODEL).exists():
            raise UserError(
                f"{folder}: this run has ended and {LAST} is gone, so there is nothing to continue; use its model as "
                f"it is, or train it again with --overwrite"
            )
    _refuse_foreign_files(folder)
    return False


def clear(folder: Path) -> None:
    """Makes the folder an empty run: marks it, and removes the files that an earlier run made; no others."""
    _refuse_foreign_files(folder)
    write_bytes(folder / MARKER, (json.dumps({"format": "seq2seq_attn run", "version": 1}) + "\n").encode())
    with explained(folder):
        for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder before the folder
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # not empty
                    path.rmdir()
            elif path.name != MARKER:
                path.unlink()


def _refuse_foreign_files(folder: Path) -> None:
    foreign = next(_foreign_files(folder), None) if folder.exists() else None
    if foreign is not None:
        raise UserError(
            f"{foreign}: was not made by the run in {folder}; move it, or name another folder with --output"
        )


def _foreign_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        own = any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in _own_at(path, folder))
        if not own and (path.is_symlink() or not path.is_dir()):
            yield path


def _own_at(path: Path, folder: Path) -> Iterator[str]:
    """The patterns as deep as the path: to `fnmatch` a star would stand for a slash as well."""
    depth = len(path.relative_to(folder).parts)
    return (pattern for pattern in _OWN if pattern.count("/") + 1 == depth)


def refuse_other_config(config: Config, folder: Path) -> None:
    """UserError if the folder's run has another configuration."""
    old, new = (_flat(c.model_dump(mode="json")) for c in (load(Config, folder / CONFIG), config))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key) and key not in {f"training.{name}" for name in MAY_CHANGE}:
            raise UserError(
                f"{folder / CONFIG}: was trained with {key}={old.get(key)!r}, now it is {new.get(key)!r}; "
                f"name another folder, or replace the run with --overwrite"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
