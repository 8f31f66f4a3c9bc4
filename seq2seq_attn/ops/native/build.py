"""Compiles the kernels once per dtype and processor, and keeps them in the user's cache folder.

A file is named `KEY-SHA256.so`. The key is a hash of sources, command, compiler version and what `-march=native` means
on this processor, so a cached file is never out of date and machines with different processors can share a home
directory. The second part is the hash of the content, which is checked before the content is loaded. The folder and
the file must belong to the user and be writable by no one else: a library is code that runs in the user's name.

A compiler that does not end is killed, and a library is first loaded by a process of its own: one for another processor
may end it. The outcome is kept in `KEY-SHA256.tried`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

from seq2seq_attn.files.writing import cache_folder, unfinished_in

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
SECONDS = 20.0  # for what takes milliseconds: a question to the compiler, or loading a library
SECONDS_TO_COMPILE = 300.0  # it takes 10 to 60, and several times as long on a busy machine
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
        kernels = _load(*_content(compiler, dtype, sources))
        for name in (match.decode() for source in sources.values() for match in _KERNEL.findall(source)):
            if not hasattr(kernels, name):
                raise OSError(f"the compiled library has no {name}")
        return kernels
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: there is no home folder
        warn_of_no_kernels("no compiled kernels", error, stacklevel=3)
        return None


def warn_of_no_kernels(what: str, error: Exception, stacklevel: int, *, has_switch: bool = True) -> None:
    """Says what is missing and why; `has_switch` where the switch of the kernels turns it off."""
    way_out = f"; set {SWITCH}=0 in the environment to disable kernels and this warning" if has_switch else ""
    warnings.warn(f"{what}, so computation is slower: {_reason(error)}{way_out}", stacklevel=stacklevel)


def _content(compiler: str, dtype: torch.dtype, sources: dict[Path, bytes]) -> tuple[bytes, Path | None]:
    """The compiled library, and its path in the cache if that can be trusted: the cached one, else a new one."""
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
        return cached, folder / _name(key, cached)
    with tempfile.TemporaryDirectory() as private:  # its mode is 0700
        compiled = Path(private, "kernels.so")
        _compile([*command, *(str(path) for path in sources if path.suffix == ".cpp"), "-o", str(compiled)])
        content = compiled.read_bytes()
    if folder is None:
        return content, None
    path = folder / _name(key, content)
    _keep(content, path)
    return content, path


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()}.so"


def _compile(command: list[str]) -> None:
    """CalledProcessError, with the compiler's output, if the compiler accepts no set of flags."""
    for tuned in TUNED:
        done = _run([*command, *tuned], SECONDS_TO_COMPILE)
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
        if path.name == _name(key, content):
            return content
        path.unlink(missing_ok=True)
    return None


def _keep(content: bytes, path: Path) -> None:
    """Writes a file of the cache, atomically. A failure is a warning: the content is at hand."""
    try:
        with unfinished_in(path.parent) as unfinished:
            unfinished.write_bytes(content)
            unfinished.chmod(0o600)
            unfinished.replace(path)
    except OSError as error:
        warnings.warn(f"compiled kernels cannot be cached: {_reason(error)}", stacklevel=4)


def _load(content: bytes, cached: Path | None) -> ctypes.CDLL:
    """Loads a library from these bytes, so that what was checked is what runs. OSError: it would end this process."""
    if sys.platform != "linux":
        with tempfile.TemporaryDirectory() as private:
            path = Path(private, "kernels.so")
            path.write_bytes(content)
            _try(str(path), (), cached)
            return ctypes.CDLL(str(path))
    # The file stays open: the loader tells libraries apart by path, and the next one must not get the same number.
    with open(file := os.memfd_create("seq2seq_attn"), "wb", closefd=False) as memory:
        memory.write(content)
    _try(f"/proc/self/fd/{file}", (file,), cached)
    return ctypes.CDLL(f"/proc/self/fd/{file}")


def _try(library: str, files: tuple[int, ...], cached: Path | None) -> None:
    """OSError if a process that loads the library, with these files open, is ended by a signal, now or when it was
    first tried."""
    outcome = cached and cached.with_suffix(".tried")
    try:
        signaled = outcome.read_text(encoding="ascii", errors="replace") if outcome else None
    except OSError:  # not tried yet
        signaled = None
    if signaled is None and sys.executable:
        # Nothing but the loader: a trial takes about 20 milliseconds.
        command = [sys.executable, "-I", "-S", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library]
        code = _run(command, SECONDS, pass_fds=files).returncode  # an error that is none of a signal shows again here
        signaled = "" if code >= 0 else _signal_name(-code)
        if outcome:
            _keep(signaled.encode(), outcome)
    if signaled:
        again = f"; delete {outcome} to try again" if outcome else ""
        raise OSError(f"the compiled library ends a process that loads it ({signaled}){again}")


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _run(command: list[str], seconds: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, with what it prints as text, whatever its encoding.

    TimeoutError: The program did not end in time; it and all that it started were killed.
    """
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(command, start_new_session=True, **streams, **text, **options) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{command[0]}: has not ended after {seconds:g} seconds, and was killed") from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _compiler() -> str | None:
    if os.name != "posix":
        return None
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)


def _version(compiler: str) -> str:
    done = _run([compiler, "--version"], SECONDS)
    done.check_returncode()
    return done.stdout


def _native_target(compiler: str) -> str:
    """What the compiler makes of `-march=native` here: code for one processor may crash on another.

    With `-###`, GCC and Clang print the command of the compiler proper, with the processor and its instruction sets.
    """
    command = [compiler, "-march=native", "-###", "-E", "-x", "c++", os.devnull]
    # In the root directory, because Clang adds the current one.
    done = _run(command, SECONDS, cwd="/")
    return done.stderr if done.returncode == 0 else platform.machine()


def _reason(error: Exception) -> str:
    message = getattr(error, "stderr", None) or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
