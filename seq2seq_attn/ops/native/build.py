"""Compiles the kernels once per dtype and processor, and keeps them in the user's cache folder.

A file is named `KEY-SHA256.so`. The key is a hash of sources, command, compiler version and what `-march=native` means
on this processor, so a cached file is never out of date and machines with different processors can share a home
directory. The second part is the hash of the content, which is checked before the content is loaded. The folder and
the file must belong to the user and be writable by no one else: a library is code that runs in the user's name.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import torch

from seq2seq_attn.text.files import cache_folder

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
_KERNEL = re.compile(rb'^extern "C" \w+ (\w+)\(', re.MULTILINE)


@cache
def library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The kernels for numbers of this dtype; None if there is no compiler or the kernels are disabled.

    A failure to compile or load them, or one that is missing in the compiled library, is a warning, and None.
    """
    compiler = _compiler()
    if compiler is None or os.environ.get(SWITCH) == "0":
        return None
    try:
        paths = [*sorted(_SOURCES.glob("*.cpp")), *sorted(_SOURCES.glob("*.h"))]
        sources = {path: path.read_bytes() for path in paths}
        kernels = _load(_content(compiler, dtype, sources))
        for name in (match.decode() for source in sources.values() for match in _KERNEL.findall(source)):
            if not hasattr(kernels, name):
                raise OSError(f"the compiled library has no {name}")
        return kernels
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: there is no home folder
        warn_of_no_kernels("no compiled kernels", error, stacklevel=3)
        return None


def warn_of_no_kernels(what: str, error: Exception, stacklevel: int) -> None:
    warnings.warn(
        f"{what}, so training is slower: {_reason(error)}; "
        f"set {SWITCH}=0 in the environment to disable kernels and this warning",
        stacklevel=stacklevel,
    )


def _content(compiler: str, dtype: torch.dtype, sources: dict[Path, bytes]) -> bytes:
    """The compiled library: the cached one, else a new one, which is then cached if the cache can be trusted."""
    command = [compiler, *FLAGS, *DEFINES[dtype]]
    hashed = [*command, *map(" ".join, TUNED), _version(compiler), _native_target(compiler)]
    key = hashlib.sha256(b"\0".join([*(text.encode() for text in hashed), *sources.values()])).hexdigest()
    try:
        folder = _private_folder()
    except OSError as error:
        warnings.warn(
            f"kernels are compiled in every process, which takes seconds, and not cached: {_reason(error)}",
            stacklevel=3,
        )
        folder = None
    if folder is not None and (cached := _cached(folder, key)) is not None:
        return cached
    with tempfile.TemporaryDirectory() as private:  # its mode is 0700
        compiled = Path(private, "kernels.so")
        _compile([*command, *(str(path) for path in sources if path.suffix == ".cpp"), "-o", str(compiled)])
        content = compiled.read_bytes()
    if folder is not None:
        _keep(content, folder / f"{key}-{hashlib.sha256(content).hexdigest()}.so")
    return content


def _compile(command: list[str]) -> None:
    """CalledProcessError, with the compiler's output, if the compiler accepts no set of flags."""
    for tuned in TUNED:
        done = subprocess.run([*command, *tuned], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    done.check_returncode()


def _private_folder() -> Path:
    """The cache folder, created if need be. OSError: it cannot be, or others could put a library into it."""
    folder = cache_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(folder.stat()):
        raise OSError(
            f"{folder}: belongs to another user or can be written by others; chown it, and chmod go-w {folder}"
        )
    return folder


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _cached(folder: Path, key: str) -> bytes | None:
    """The content of the cached library with this key; None if there is none. Removes damaged and foreign ones."""
    for path in folder.glob(f"{key}-*.so"):
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                content = file.read() if stat.S_ISREG(status.st_mode) and _is_private(status) else b""
        except OSError:  # a link, a folder, or removed by another process
            continue
        if path.stem == f"{key}-{hashlib.sha256(content).hexdigest()}":
            return content
        path.unlink(missing_ok=True)
    return None


def _keep(content: bytes, path: Path) -> None:
    """Writes a file of the cache, atomically. A failure is a warning: the content is at hand."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as private:
            unfinished = Path(private, path.name)
            unfinished.write_bytes(content)
            unfinished.chmod(0o600)
            unfinished.replace(path)
    except OSError as error:
        warnings.warn(f"compiled kernels cannot be cached: {_reason(error)}", stacklevel=4)


def _load(content: bytes) -> ctypes.CDLL:
    """Loads a library from these bytes, so that what was checked is what runs."""
    if sys.platform != "linux":
        with tempfile.TemporaryDirectory() as private:
            path = Path(private, "kernels.so")
            path.write_bytes(content)
            return ctypes.CDLL(str(path))
    # The file stays open: the loader tells libraries apart by path, and the next one must not get the same number.
    with open(file := os.memfd_create("seq2seq_attn"), "wb", closefd=False) as memory:
        memory.write(content)
    return ctypes.CDLL(f"/proc/self/fd/{file}")


def _compiler() -> str | None:
    if os.name != "posix":
        return None
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def _native_target(compiler: str) -> str:
    """What the compiler makes of `-march=native` here: code for one processor may crash on another.

    With `-###`, GCC and Clang print the command of the compiler proper, with the processor and its instruction sets.
    """
    command = [compiler, "-march=native", "-###", "-E", "-x", "c++", os.devnull]
    # In the root directory, because Clang adds the current one.
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.stderr if done.returncode == 0 else platform.machine()


def _reason(error: Exception) -> str:
    message = getattr(error, "stderr", None) or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
