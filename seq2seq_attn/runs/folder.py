"""The folder of a run: its files, its metrics, and which of its files may be removed.

A folder is a run if it contains the manifest that `train` writes first (`files/checksums.py`). Only files that the run
wrote are ever removed from it: those in its manifest and its logs. Any other file is reported by name, and nothing
changes. Reading a file of a run checks it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.embedded import TOM_AND_JERRY
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS, checked, damaged, has_sums, read_sums, record, write_recorded
from seq2seq_attn.files.json_files import load_values
from seq2seq_attn.files.lock import LOCK, locked
from seq2seq_attn.files.nested import flat
from seq2seq_attn.files.plain import bounded, to_json
from seq2seq_attn.files.reading import digest
from seq2seq_attn.files.writing import PART, explained, remove_abandoned
from seq2seq_attn.results.metrics import RUN_METRICS
from seq2seq_attn.runs import CONFIG, MODEL, is_shipped, require_run
from seq2seq_attn.runs.corpora import files_in
from seq2seq_attn.runs.plugin import FOLDER, read_run_values, run_files, run_values
from seq2seq_attn.runs.provenance import PROVENANCE, data_files, dataset_digests, read_sessions
from seq2seq_attn.strict import parse, read_yaml
from seq2seq_attn.training import LAST, PREVIOUS

IfExists = Literal["refuse", "resume", "overwrite"]

COMPARISON = "comparison.json"  # the marker of the folder that `compare` writes
METRICS, LEXICON = "metrics.json", "lexicon.safetensors"
SKIPPED = "skipped.jsonl"  # the sentences of the batch that ended training by a loss that is not finite

_EVENTS = "log/events.out.tfevents.*"  # which TensorBoard writes from beginning to end
_FOLDERS = ("checkpoints", "plugins", "log")
_PHASE = "training.optimizer."  # what may change when training continues, but for what its tensors depend on
_OF_THE_STATE = tuple(f"{_PHASE}{key}" for key in ("name", "options"))


def read_config(folder: Path) -> Config:
    """The configuration of a run folder. UserError: it is not one."""
    require_run(folder)
    path = checked(folder, CONFIG)
    values = read_run_values(read_yaml(path), folder)
    return parse(
        Config, values | {"data": files_in(TOM_AND_JERRY, values["data"])} if is_shipped(folder) else values, path
    )


def read_metrics(folder: Path) -> dict[str, Any]:
    """The content of metrics.json; empty if there is none yet.

    During training it contains at most `pretrained_embeddings`; `training` is added at the end of training, `test`
    when the test set has been scored.
    """
    path = checked(folder, METRICS)
    if not path.exists():
        return {}
    return load_values(RUN_METRICS, path, "restore it, or train the run again")


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Adds or replaces top-level keys of metrics.json."""
    write_recorded(folder, {METRICS: metrics_content(read_metrics(folder) | metrics)})


def metrics_content(metrics: dict[str, Any]) -> bytes:
    """The content of metrics.json. Numbers that are not finite, or too large to be read again, become null."""
    return f"{to_json(bounded(metrics), indent=2)}\n".encode()


def record_logs(folder: Path) -> None:
    """Records the logs for TensorBoard, which training writes from beginning to end."""
    record(folder, [path.relative_to(folder).as_posix() for path in folder.glob(_EVENTS)])


def prepare_to_resume(folder: Path) -> None:
    """Removes what a killed training was writing."""
    for name in ("", *_FOLDERS):
        remove_abandoned(folder / name)


def refuse_folder(folder: Path) -> None:
    """UserError if the folder is the current one or contains it: results get a folder of their own."""
    if Path.cwd().is_relative_to(_real(folder)):
        raise UserError(f"{folder}: is the current folder, or contains it; name a folder of its own with --output")


def refuse_source(folder: Path, source: Path, if_exists: IfExists) -> None:
    """UserError if the folder contains the file of the configuration, unless a run is resumed with its own."""
    if if_exists == "resume" and _real(source) == _real(folder / CONFIG) and is_run(folder):
        return
    if _real(source).is_relative_to(_real(folder)):
        raise UserError(f"{folder}: contains {source}; name a folder of its own with --output")


def _real(path: Path) -> Path:
    """The path without links. `Path.resolve` raises RuntimeError for a link to itself before Python 3.13."""
    return Path(os.path.realpath(path))


@contextmanager
def reserved(
    config: Config, folder: Path, if_exists: IfExists, *, wait: bool = False, given: Collection[str] = ()
) -> Iterator[None]:
    """Holds the lock of a folder that this configuration may be trained into: no other folder is written to.

    `wait` as in `lock.locked`, `given` as in `refuse_other_config`. UserError as in `may_resume`; BusyError: another
    process has the folder.
    """
    refuse_folder(folder)
    if not is_run(folder):
        may_resume(config, folder, if_exists, given)
    with locked(folder, wait=wait):
        yield


def is_vacant(folder: Path) -> bool:
    """Whether the folder does not exist, or has nothing but a lock and the beginning of a run's first file."""
    first = LOCK, PART
    return not folder.exists() or (
        folder.is_dir() and all(any(fnmatch(path.name, each) for each in first) for path in folder.iterdir())
    )


def may_resume(config: Config, folder: Path, if_exists: IfExists, given: Collection[str] = ()) -> bool:
    """True if training continues from the folder's last checkpoint, False if it starts from the beginning.

    UserError: the folder is not a run, holds other files, is not to be replaced, or has another configuration or data.
    """
    refuse_folder(folder)
    if is_vacant(folder):
        return False
    if (folder / COMPARISON).exists():
        raise UserError(f"{folder}: holds a comparison ({COMPARISON}), not a run; name another folder with --output")
    if not is_run(folder):
        raise UserError(
            f"{folder}: exists and is not a run of `train` (no {SUMS} of it); name another folder with --output"
        )
    if if_exists == "refuse":
        raise UserError(f"{folder}: this run exists; continue it with --resume or replace it with --overwrite")
    if if_exists == "resume":
        trained = next((name for name in (LAST, PREVIOUS, MODEL) if (folder / name).exists()), None)
        if trained is not None and (folder / CONFIG).exists():
            refuse_other_config(config, folder, given)
        elif trained is not None:
            raise UserError(f"{folder / CONFIG}: no such file; restore it, or train the run again with --overwrite")
        if trained == MODEL:
            raise UserError(
                f"{folder}: this run has ended and {LAST} is missing, so it cannot continue; "
                f"use its model as it is, or train it again with --overwrite"
            )
        if trained is not None:
            read_metrics(folder)  # its damage should show now, not when training adds to it
            return True
    _refuse_foreign_files(folder)
    return False


def is_run(folder: Path) -> bool:
    """Whether the folder has the manifest that `train` writes."""
    return has_sums(folder)


def clear(folder: Path) -> None:
    """Turns the folder into an empty run: removes the files of an earlier run, and no others, and begins a manifest."""
    _refuse_foreign_files(folder)
    with explained(folder):
        for path in sorted(folder.rglob("*"), reverse=True):  # contents of a folder come before the folder
            if not path.is_dir() and path not in (folder / SUMS, folder / LOCK):
                path.unlink()
            elif path.is_dir() and any(fnmatch(path.relative_to(folder).as_posix(), own) for own in _FOLDERS):
                with suppress(OSError):  # not empty
                    path.rmdir()
        (folder / SUMS).unlink(missing_ok=True)  # last: it says which files may be removed
    record(folder, [])


def _refuse_foreign_files(folder: Path) -> None:
    foreign = next(_foreign_files(folder), None) if folder.exists() else None
    if foreign is not None:
        raise UserError(
            f"{foreign}: was not written by the run in {folder}; move it, or name another folder with --output"
        )


def _foreign_files(folder: Path) -> Iterator[Path]:
    paths = sorted(folder.rglob("*"))
    recorded = read_sums(folder)  # after the listing: another process records a file before it writes it
    for path in paths:
        name = path.relative_to(folder).as_posix()
        own = name in recorded or name in (SUMS, LOCK) or fnmatch(name, _EVENTS) or fnmatch(path.name, PART)
        if path.is_symlink() or not (own or path.is_dir()):  # a run writes no links
            yield path


def changed_surroundings(folder: Path, provenance: Mapping[str, Any]) -> str | None:
    """In words, how version, device, threads or kernels differ from those at the start of training; None if not."""
    before = read_sessions(folder)[0]
    changed = [key for key in ("version", "hardware") if before[key] != provenance[key]]
    if not changed:
        return None
    was, now = ("; ".join(str(each[key]) for key in changed) for each in (before, provenance))
    return (
        f"continues on {now}, but began on {was}: its numbers may differ in the last digits from one training on either"
    )


def check_files(folder: Path) -> list[str]:
    """One line for each file of a finished run that is missing or damaged."""
    needed = CONFIG, MODEL, METRICS, PROVENANCE
    return [*(f"{folder / name}: no such file" for name in needed if not (folder / name).exists()), *damaged(folder)]


def refuse_other_config(config: Config, folder: Path, given: Collection[str] = ()) -> None:
    """UserError if the run has another configuration, other data, or other files of its own.

    Limits under `training` may differ: patience, `max_skipped_steps`, `max_hours`, and `max_epochs` and `max_steps`
    unless the learning rates so far depend on them, or a run that has ended is longer. So may options of the optimizer,
    if one of them is among the keys that were `given` as overrides for this call: a new phase begins.
    """
    trained = read_config(folder)
    may_change = {"training.patience", "training.max_skipped_steps", "training.max_hours"}
    phase = phase_changes(config, folder) if any(key.startswith(_PHASE) for key in given) else {}
    may_change |= phase.keys()
    if phase or not trained.training.optimizer.decays_to_zero:
        may_change |= {"training.max_epochs", "training.max_steps"}
    for key, (old, new) in _changes(trained, config).items():
        if key not in may_change:
            is_phase = key.startswith(_PHASE) and not key.startswith(_OF_THE_STATE)
            instead = f"give {key}={new} on the command line for a new phase of the training, " if is_phase else ""
            raise UserError(
                f"{folder / CONFIG}: was trained with {key}={old!r}, now it is {new!r}; "
                f"{instead}name another folder, or replace the run with --overwrite"
            )
    recorded, data = read_sessions(folder)[0]["data"], data_files(config)
    for key in sorted(recorded.keys() & data.keys()):
        if data[key].exists() and digest(data[key]) != recorded[key]:
            raise UserError(
                f"{data[key]}: is not the file that {folder} was trained with ({key}, another SHA-256); restore it, "
                f"name another folder, or replace the run with --overwrite"
            )
    for key, text in dataset_digests(config).items():
        if recorded.get(key, text) != text:
            raise UserError(
                f"{key}: its text is not what {folder} was trained with (another SHA-256); restore it, name another "
                f"folder, or replace the run with --overwrite"
            )
    files, now = run_files(trained), run_files(config)
    for name in sorted(files.keys() | now.keys()):
        if files.get(name) != now.get(name):
            raise UserError(
                f"{folder / FOLDER / name}: differs from the {name} that is used now; "
                f"name another folder, or replace the run with --overwrite"
            )
    ended = read_metrics(folder).get("training", {})
    config.training.require_length(ended.get("epochs", 0), ended.get("steps", 0), folder)


def phase_changes(config: Config, folder: Path) -> dict[str, tuple[Any, Any]]:
    """The options of the optimizer that a new phase of a run may change and this configuration does: before, now."""
    changes = _changes(read_config(folder), config)
    return {k: each for k, each in changes.items() if k.startswith(_PHASE) and not k.startswith(_OF_THE_STATE)}


def _changes(before: Config, now: Config) -> dict[str, tuple[Any, Any]]:
    """The keys with different values, in alphabetical order."""
    old, new = (flat(run_values(each)) for each in (before, now))
    pairs = {key: (old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys())}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
