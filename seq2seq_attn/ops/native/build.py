"""Compiles the kernels once per dtype and machine, and caches them in the user's cache folder.

The file name is a hash of sources, command, compiler version and processor. So a cached file is never out of date, a
home directory that several kinds of machines share holds one file for each, and several processes can compile at the
same time.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path

import torch

SWITCH = "SEQ2SEQ_ATTN_NATIVE"  # environment variable; "0": no kernels
COMPILERS = ("c++", "g++", "clang++")  # after $CXX
FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-shared", "-fPIC")
# Not every compiler accepts all of these; the first accepted set is used.
TUNED = (
    ("-march=native", "-mprefer-vector-width=512", "-fopenmp"),
    ("-march=native", "-fopenmp"),
    ("-march=native",),
    (),
)
DEFINES = {torch.float32: (), torch.bfloat16: ("-DBFLOAT16",)}

_SOURCES = Path(__file__).parent


@cache
def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The kernels for numbers of this dtype; None if there is no compiler or the kernels are disabled.

    A failure to compile or load them is a warning, and None.
    """
    compiler = _compiler()
    if compiler is None or os.environ.get(SWITCH) == "0":
        return None
    try:
        return _loaded(compiler, dtype)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: there is no home folder
        warnings.warn(
            f"no compiled kernels, so training is slower: {_reason(error)}; "
            f"set {SWITCH}=0 in the environment to disable kernels and this warning",
            stacklevel=2,
        )
        return None


def _loaded(compiler: str, dtype: torch.dtype) -> ctypes.CDLL:
    command = [compiler, *FLAGS, *DEFINES[dtype]]
    sources = sorted(_SOURCES.glob("*.cpp"))
    hashed = [*command, *map(" ".join, TUNED), _version(compiler), _processor()]
    hashed += [path.read_text() for path in (*sources, *sorted(_SOURCES.glob("*.h")))]
    cached = cache_folder() / f"{hashlib.sha256(chr(0).join(hashed).encode()).hexdigest()}.so"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
            compiled = Path(folder) / cached.name
            _compile([*command, *map(str, sources), "-o", str(compiled)])
            compiled.replace(cached)  # atomic, so that another process never loads half a file
    return ctypes.CDLL(str(cached))


def _compile(command: list[str]) -> None:
    """CalledProcessError, with the compiler's output, if the compiler accepts no set of flags."""
    for tuned in TUNED:
        done = subprocess.run([*command, *tuned], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    done.check_returncode()


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/seq2seq_attn`, or `~/.cache/seq2seq_attn`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2seq_attn"


def _compiler() -> str | None:
    if os.name != "posix":
        return None
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def _processor() -> str:
    """Model and instruction sets: code compiled with `-march=native` may crash on another processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _reason(error: Exception) -> str:
    message = getattr(error, "stderr", None) or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
