"""Provenance: what a run was made from and with, recorded in its `provenance.json` and with every result."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field, TypeAdapter

import seq2seq_attn
from seq2seq_attn import ops
from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.tables import digest_of_dataset
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.files.json_files import OPEN, load_values
from seq2seq_attn.files.nested import leaves, mapped
from seq2seq_attn.files.reading import digest, sha256
from seq2seq_attn.ops.host import machine_memory, on_cuda
from seq2seq_attn.runs.plugin import run_values
from seq2seq_attn.strict import dump, parse

PROVENANCE = "provenance.json"

# Those of setup.cfg, and extras that change results.
PACKAGES = (
    *("torch", "sacrebleu", "sentencepiece", "sacremoses", "pydantic", "PyYAML", "typer", "rich"),
    *("safetensors", "numpy", "scipy", "matplotlib", "fonttools", "pillow", "jinja2"),
    *("tensorboard", "torchtext", "eflomal", "unbabel-comet", "rouge-score", "soundfile", "kaldi-native-fbank", "timm"),
)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED")
_CHECKOUT = Path(__file__).resolve().parents[2]
_PACKAGE = Path(seq2seq_attn.__file__).parent


def session(config: Config) -> dict[str, Any]:
    """What is recorded at the start of a training run, and again whenever it continues."""
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "argv": sys.argv,
        **run_provenance(config.training.accelerator),
        "code": code_digest(),
        "uncommitted": _git("diff", "HEAD", "--", _PACKAGE.name),
        "untracked": {name: sha256_if_there(_CHECKOUT / name) for name in _untracked()},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": packages(),
        "platform": platform.platform(),
        "cuda": torch.version.cuda if on_cuda(config.training.accelerator) else None,
        "memory_bytes": machine_memory(),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name in VARIABLES or name.startswith("SEQ2SEQ_ATTN_")
        },
        "seeds": {"seed": config.seed},
        "config": hashlib.sha256(config_content(config)).hexdigest(),
        # A resumed run no longer needs its word vectors.
        "data": {key: digest(path) for key, path in data_files(config).items() if path.exists()}
        | dataset_digests(config),
    }


def read_sessions(folder: Path) -> list[dict[str, Any]]:
    """The sessions of a run, in order, at least one. UserError: the file is missing or damaged."""
    path = checked(folder, PROVENANCE)
    sessions: list[dict[str, Any]] = load_values(_RECORD, path, "restore it, or train the run again")["sessions"]
    return sessions


class _Session(BaseModel):
    """What `verify` compares; `session` records more."""

    model_config = OPEN

    version: str
    commit: str | None
    hardware: str
    code: str
    uncommitted: str | None
    packages: dict[str, str]
    config: str
    data: dict[str, str]
    named_files: dict[str, str] = {}


class _Provenance(BaseModel):
    model_config = OPEN

    sessions: list[_Session] = Field(min_length=1)


_RECORD = TypeAdapter(_Provenance)


def provenance_content(folder: Path, new: Mapping[str, Any]) -> bytes:
    """The content of provenance.json with one more session."""
    sessions = read_sessions(folder) if (folder / PROVENANCE).exists() else []
    record = {"format": "seq2seq_attn provenance", "version": 1, "sessions": [*sessions, dict(new)]}
    return f"{json.dumps(record, indent=2, ensure_ascii=False)}\n".encode()


def made_with(folder: Path) -> dict[str, str]:
    """Version, commit and hardware of a run; each with all its values if these changed when training continued."""
    sessions = read_sessions(folder)
    return {
        key: "; ".join(dict.fromkeys(str(each[key]) for each in sessions)) for key in ("version", "commit", "hardware")
    }


def config_content(config: Config) -> bytes:
    """The content of the config.yaml of a run."""
    return dump(run_values(config)).encode()


def data_files(config: Config) -> dict[str, Path]:
    """The files that a configuration names, by key, as in `data.train.source` and `data.test.references.0`."""
    return {key: value for key, value in leaves(config.model_dump()) if isinstance(value, Path)}


def with_files_found(config: Config, folder: Path) -> Config:
    """The configuration with its data where they are: relative paths that lead nowhere from here, from above the run.

    All files must be below one of the folders that the run is in, with the content that it recorded. Otherwise the
    configuration stays as it is.
    """
    files = data_files(config)
    missing = {key: path for key, path in files.items() if not path.is_absolute() and not path.exists()}
    if not missing:
        return config
    recorded = read_sessions(folder)[-1]["data"]
    for above in folder.resolve().parents:
        found = {key: above / path for key, path in missing.items()}
        if all(map(Path.is_file, found.values())) and all(digest(found[key]) == recorded.get(key) for key in found):
            values = mapped(config.data.model_dump(), found.get, "data")
            return config.model_copy(update={"data": parse(type(config.data), values)})
    return config


def dataset_digests(config: Config) -> dict[str, str]:
    """The SHA-256 of the text of each data set that is no file, by key, as in `data.train.dataset`."""
    data = config.data
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    named = {
        f"data.{part}.dataset" if one is files else f"data.{part}.corpora.{number}.dataset": dataset_digest(one)
        for part, files in parts.items()
        if files is not None
        for number, one in enumerate(files.each)
    }
    return {key: found for key, found in named.items() if found is not None}


def dataset_digest(files: PairFiles) -> str | None:
    """The SHA-256 of the text of a data set; None for files, which have checksums of their own."""
    if files.dataset is None:
        return None
    columns: Any = files.columns  # names, as the record requires
    return digest_of_dataset(files.dataset, files.subset, files.split, columns)


@functools.cache
def code_digest() -> str:
    """The SHA-256 of the package's files, by name."""
    files = sorted(path for path in _PACKAGE.rglob("*") if path.suffix in (".py", ".cpp", ".h", ".yaml"))
    digests = {path.relative_to(_PACKAGE).as_posix(): sha256_if_there(path) for path in files}
    named = [f"{found}  {name}\n" for name, found in digests.items() if found]
    return hashlib.sha256("".join(named).encode()).hexdigest()


def sha256_if_there(path: Path) -> str | None:
    """The SHA-256 of a file; None of what is gone since it was listed, or no file, such as the lock of an editor."""
    with suppress(UserError):
        return sha256(path)
    return None


def packages() -> dict[str, str]:
    """The versions of the libraries that are installed."""
    return {name: found for name in PACKAGES if (found := _version(name)) is not None}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def run_provenance(accelerator: str, threads: int | None = None) -> dict[str, str | None]:
    """The provenance that is recorded with every result; `accelerator` as in `training.accelerator`.

    `threads` is the number of threads in use if another process does the work.
    """
    return {"version": seq2seq_attn.__version__, "commit": commit(), "hardware": hardware(accelerator, threads)}


def commit() -> str | None:
    """The commit of the package's checkout, followed by `+` if tracked files were changed; None without a checkout."""
    head, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    return None if head is None or changed is None else head.strip() + ("+" if changed.strip() else "")


def _untracked() -> list[str]:
    """Files of the package in the checkout that git neither has nor ignores."""
    listed = _git("ls-files", "--others", "--exclude-standard", "-z", "--", _PACKAGE.name) or ""
    return [name for name in listed.split("\0") if name]


def _git(*arguments: str) -> str | None:
    """The output of git in the package's checkout; None without a checkout or without git."""
    if not (_CHECKOUT / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(_CHECKOUT), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="replace")


def hardware(accelerator: str, threads: int | None = None) -> str:
    """The GPU and the version of torch.

    Without a GPU, or with `accelerator="cpu"`: the processor, the threads in use, the version of torch, and whether the
    compiled kernels are in use.
    """
    if on_cuda(accelerator):
        return f"{torch.cuda.get_device_name()}; torch {torch.__version__}"
    threads = threads or torch.get_num_threads()
    cores = f"{threads} thread{'' if threads == 1 else 's'} of {os.cpu_count()} cores"
    return f"{_processor()}, {cores}; torch {torch.__version__}, {ops.description()}"


def _processor() -> str:
    """Its name, with family and model, as a name like "AMD EPYC" stands for generations that differ in speed."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    first = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = first.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in first:
        name += f" (family {first['cpu family']}, model {first['model']})"
    return name
