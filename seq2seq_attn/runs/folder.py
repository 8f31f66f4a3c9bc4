"""The folder of a run: its files, its metrics, and which of its files may be removed.

A folder is a run if it contains the marker that `train` writes first. Only files that a run writes are ever removed
from it; any other file is reported by name, and nothing changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.plain import to_json
from seq2seq_attn.runs import CONFIG, require_run
from seq2seq_attn.runs.plugin import FOLDER, read_run_values, run_files, run_values
from seq2seq_attn.strict import parse, read_yaml
from seq2seq_attn.text.files import explained, read_json, write_bytes

IfExists = Literal["refuse", "resume", "overwrite"]

MARKER = "run.json"
COMPARISON = "comparison.json"  # the marker of the folder that `compare` writes
MODEL, METRICS, LEXICON = "model.safetensors", "metrics.json", "lexicon.safetensors"
LAST_CHECKPOINT, BEST_WEIGHTS = "checkpoints/last.ckpt", "checkpoints/best.safetensors"

# All files that a run writes, relative to its folder.
_OWN = (
    MARKER,
    CONFIG,
    MODEL,
    METRICS,
    LEXICON,
    "provenance.json",
    *(f"{side}.{rest}" for side in ("source", "target", "joint") for rest in ("*.json", "*.txt", "*.model")),
    "plugins/*.py",
    "plugins/SHA256SUMS",
    "test.*.txt",
    "checkpoints/*.ckpt",
    BEST_WEIGHTS,
    "log/version_*/*",
    "*.part",
    "checkpoints/*.part",
    "plugins/*.part",
)


def read_config(folder: Path) -> Config:
    """The configuration of a run folder. UserError: it is not one."""
    require_run(folder)
    return parse(Config, read_run_values(read_yaml(folder / CONFIG), folder), folder / CONFIG)


def read_metrics(folder: Path) -> dict[str, Any]:
    """The content of metrics.json; empty if there is none yet.

    During training it contains at most `pretrained_embeddings`; `training` is added at the end of training, `test`
    when the test set has been scored.
    """
    path = folder / METRICS
    if not path.exists():
        return {}
    metrics = read_json(path)
    if not _is_metrics(metrics):
        raise UserError(f"{path}: not the metrics of a run; delete it and run again")
    return dict(metrics)


def _is_metrics(values: Any) -> bool:
    """Whether the parts that every run has at its end are either absent or whole."""
    if not isinstance(values, dict):
        return False
    training, test = values.get("training", {}), values.get("test", {})
    if not isinstance(training, dict) or not isinstance(test, dict):
        return False
    numbers = [training.get(key) for key in ("best", "epochs", "seconds")] if "training" in values else []
    if "test" in values:
        bleu = test.get("bleu")
        numbers.append(bleu.get("value") if isinstance(bleu, dict) else None)
    return all(isinstance(number, (int, float)) for number in numbers)


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Adds or replaces top-level keys of metrics.json."""
    text = to_json(read_metrics(folder) | metrics, indent=2)
    write_bytes(folder / METRICS, f"{text}\n".encode())


def may_resume(config: Config, folder: Path, if_exists: IfExists) -> bool:
    """True if training continues from the folder's last checkpoint, False if it starts from the beginning.

    UserError: the folder is not a run, holds other files, is not to be replaced, or has another configuration.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if (folder / COMPARISON).exists():
        raise UserError(f"{folder}: holds a comparison ({COMPARISON}), not a run; name another folder with --output")
    if not (folder / MARKER).is_file():
        raise UserError(
            f"{folder}: exists and is not a run of `train` (no {MARKER}); name another folder with --output"
        )
    if if_exists == "refuse":
        raise UserError(f"{folder}: this run exists; continue it with --resume or replace it with --overwrite")
    if if_exists == "resume" and (folder / CONFIG).exists():
        refuse_other_config(config, folder)
        if (folder / LAST_CHECKPOINT).exists():
            return True
        if (folder / MODEL).exists():
            raise UserError(
                f"{folder}: this run has ended and {LAST_CHECKPOINT} is missing, so it cannot continue; "
                f"use its model as it is, or train it again with --overwrite"
            )
    _refuse_foreign_files(folder)
    return False


def clear(folder: Path) -> None:
    """Turns the folder into an empty run: writes the marker and removes the files of an earlier run, and no others."""
    _refuse_foreign_files(folder)
    write_bytes(folder / MARKER, (json.dumps({"format": "seq2seq_attn run", "version": 1}) + "\n").encode())
    with explained(folder):
        for path in sorted(folder.rglob("*"), reverse=True):  # contents of a folder come before the folder
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # not empty
                    path.rmdir()
            elif path.name != MARKER:
                path.unlink()


def _refuse_foreign_files(folder: Path) -> None:
    foreign = next(_foreign_files(folder), None) if folder.exists() else None
    if foreign is not None:
        raise UserError(
            f"{foreign}: was not written by the run in {folder}; move it, or name another folder with --output"
        )


def _foreign_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        own = any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in _own_at(path, folder))
        if not own and (path.is_symlink() or not path.is_dir()):
            yield path


def _own_at(path: Path, folder: Path) -> Iterator[str]:
    """The patterns of the same depth as the path: in `fnmatch`, a star also matches slashes."""
    depth = len(path.relative_to(folder).parts)
    return (pattern for pattern in _OWN if pattern.count("/") + 1 == depth)


def refuse_other_config(config: Config, folder: Path) -> None:
    """UserError if the run has another configuration or other files of its own.

    `training.patience` may differ, and `training.max_epochs` unless the learning rates of earlier epochs depend on it.
    """
    trained = read_config(folder)
    may_change = {"training.patience"}
    if not trained.training.optimiser.decays_to_zero:
        may_change.add("training.max_epochs")
    old, new = (_flat(run_values(each)) for each in (trained, config))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key) and key not in may_change:
            raise UserError(
                f"{folder / CONFIG}: was trained with {key}={old.get(key)!r}, now it is {new.get(key)!r}; "
                f"name another folder, or replace the run with --overwrite"
            )
    files, now = run_files(trained), run_files(config)
    for name in sorted(files.keys() | now.keys()):
        if files.get(name) != now.get(name):
            raise UserError(
                f"{folder / FOLDER / name}: differs from the {name} that is used now; "
                f"name another folder, or replace the run with --overwrite"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
