"""Provenance of a run: package version, commit and hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

import seq2seq_attn
from seq2seq_attn import ops


def run_provenance(accelerator: str, threads: int | None = None) -> dict[str, str | None]:
    """The provenance that is recorded with every result; `accelerator` as in `training.accelerator`.

    `threads` is the number of threads in use if another process does the work.
    """
    return {"version": seq2seq_attn.__version__, "commit": commit(), "hardware": hardware(accelerator, threads)}


def commit() -> str | None:
    """The commit of the package's checkout, followed by `+` if tracked files were changed; None without a checkout."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(folder)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed.strip() else "")


def hardware(accelerator: str, threads: int | None = None) -> str:
    """The GPU and the version of torch.

    Without a GPU, or with `accelerator="cpu"`: the processor, the threads in use, the version of torch, and whether the
    compiled kernels are in use.
    """
    if on_cuda(accelerator):
        return f"{torch.cuda.get_device_name()}; torch {torch.__version__}"
    cores = f"{threads or torch.get_num_threads()} threads of {os.cpu_count()} cores"
    return f"{_processor()}, {cores}; torch {torch.__version__}, {ops.description()}"


def on_cuda(accelerator: str) -> bool:
    """True if a run with this `training.accelerator` trains on a CUDA device."""
    return accelerator != "cpu" and torch.cuda.is_available()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
