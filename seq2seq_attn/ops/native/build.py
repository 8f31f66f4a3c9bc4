"""Compiles the kernels, once for each machine and precision, and keeps them in the user's cache.

The file is named by the digest of all that it is made from: sources, command, compiler and processor. So it is never
out of date, a home that several machines share holds one for each kind, and processes that compile at once do no harm.
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

SWITCH = "SEQ2SEQ_ATTN_NATIVE"  # "0" in the environment: no kernels
COMPILERS = ("c++", "g++", "clang++")  # after $CXX
FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-shared", "-fPIC")
# Not every compiler takes all of these: the first set that it takes.
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
    """The kernels for numbers of this type; None where there is no compiler, or where they are switched off."""
    compiler = _compiler()
    if compiler is None or os.environ.get(SWITCH) == "0":
        return None
    try:
        return _loaded(compiler, dtype)
    except (OSError, subprocess.SubprocessError) as error:
        warnings.warn(
            f"no compiled kernels, which makes training slower: {_reason(error)}; "
            f"{SWITCH}=0 in the environment leaves them out without a word",
            stacklevel=2,
        )
        return None


def _loaded(compiler: str, dtype: torch.dtype) -> ctypes.CDLL:
    command = [compiler, *FLAGS, *DEFINES[dtype]]
    sources = sorted(_SOURCES.glob("*.cpp"))
    made_from = [*command, *map(" ".join, TUNED), _version(compiler), _processor()]
    made_from += [path.read_text() for path in (*sources, *sorted(_SOURCES.glob("*.h")))]
    kept = cache_folder() / f"{hashlib.sha256(chr(0).join(made_from).encode()).hexdigest()}.so"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / kept.name
            _compile([*command, *map(str, sources), "-o", str(made)])
            made.replace(kept)
    return ctypes.CDLL(str(kept))


def _compile(command: list[str]) -> None:
    """Raises CalledProcessError, with what the compiler said, if it takes no set of flags."""
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
    """What the processor can do: code that is made for one may stop on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return said.strip().splitlines()[0] if said.strip() else type(error).__name__
