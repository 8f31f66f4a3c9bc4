"""Writing files: each is replaced as a whole, or not at all, however the process ends.

What is unfinished has a name of its own in the folder of its destination: `.seq2seq_attn.*.part`. Its writer holds a
lock on it, which the kernel releases however the process ends. Whoever writes to the folder next removes what nobody
holds.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from seq2seq_attn.errors import UserError
from seq2seq_attn.reading import read_bytes

try:
    fcntl: Any = import_module("fcntl")
except ModuleNotFoundError:  # Windows has no locks that a kill releases and a rename survives
    fcntl = None

PART = ".seq2seq_attn.*.part"  # the names of files and folders that are being written
_ABANDONED = 86400.0  # seconds without a change, where the kernel has no locks to tell
# EBADF: a file server locks nothing that was opened for reading alone, as folders are.
_NO_LOCKS = errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EBADF


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: to a temporary name in the same folder, synced, which is then renamed."""
    with writing(path) as file, explained(path):
        file.write(content)


def write_new(contents: Mapping[Path, bytes]) -> None:
    """Write files that replace no others; a file whose name ends in `.gz` is compressed.

    A file that already has this content is left alone. Raises UserError, before anything is written, if one of them
    has another content.
    """
    missing = {path: content for path, content in contents.items() if not path.exists()}
    for path, content in contents.items():
        if path not in missing and read_bytes(path) != content:
            raise UserError(f"{path}: the file exists and nothing is overwritten; delete it, or choose another folder")
    for path, content in missing.items():
        write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for atomic writing in pieces: renamed at the end of the block, deleted if the block raises.

    Write to it under `explained`, so that only errors of the file itself are reported as such.
    """
    with replacing(path) as unfinished:
        with explained(path):
            file = unfinished.open("wb")
        try:
            yield file
        finally:
            with explained(path):
                file.close()  # flushes its buffer, which may fail


def rename(path: Path, new: Path) -> None:
    """Rename a file, over another one if there is one, and wait until the disk has done so."""
    os.replace(path, new)
    sync(new.parent)


def sync(path: Path) -> None:
    """Wait until the disk has the content of a file, or the names in a folder."""
    is_folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows syncs what can be written
    except PermissionError:
        if is_folder:  # Windows opens no folder, and keeps its names by itself
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path, install: Callable[[Path, Path], object] = rename) -> Iterator[Path]:
    """The temporary name of a file that the block writes: installed at its end, deleted if it raises.

    `install(unfinished, path)` renames the file when the disk has all of it, so neither a kill nor a power failure
    leaves half a file. The file gets the mode of any new file, however the block creates it (safetensors would let its
    owner alone read).
    """
    with ExitStack() as stack:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = stack.enter_context(unfinished_in(path.parent))
            mode = unfinished.stat().st_mode
        yield unfinished
        with explained(path):
            unfinished.chmod(mode)
            sync(unfinished)
            install(unfinished, path)


@contextmanager
def unfinished_in(folder: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """A new file, or folder, under a temporary name in `folder`, for the block to fill and rename; else it is deleted.

    Removes what killed processes have left in `folder`. OSError: it cannot be written.
    """
    remove_abandoned(folder)
    path, lock = _new_part(folder, is_folder)
    with lock:
        try:
            yield path
        finally:
            with suppress(OSError):
                _remove(path)


def remove_abandoned(folder: Path) -> None:
    """Removes what processes were writing in a folder when they were killed, and nothing that a living one writes."""
    with suppress(OSError):
        for path in folder.glob(PART):
            with suppress(OSError):  # it has just been renamed, or is another user's
                _remove_if_abandoned(path)


def _new_part(folder: Path, is_folder: bool) -> tuple[Path, ExitStack]:
    """A new file or folder, and what releases its lock."""
    while True:
        path = folder / PART.replace("*", uuid4().hex)
        if is_folder:
            path.mkdir()
        else:
            path.touch(exist_ok=False)
        with suppress(FileNotFoundError), ExitStack() as stack:
            is_free = kernel_lock(stack.enter_context(opened_to_lock(path)))
            if is_free is not False and path.exists():
                return path, stack.pop_all()
        # Another process took it for abandoned before it was locked.


def _remove_if_abandoned(path: Path) -> None:
    with opened_to_lock(path) as descriptor:
        is_free = kernel_lock(descriptor)
        if is_free or (is_free is None and time.time() - path.stat().st_mtime > _ABANDONED):
            _remove(path)  # while the lock is held, see `_new_part`


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def opened_to_lock(path: Path) -> Iterator[int | None]:
    """The descriptor of a file or folder, for `kernel_lock`; None where there are no such locks."""
    if fcntl is None:  # on Windows, where a file that is open could not be renamed
        yield None
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # file servers lock what can be written
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def kernel_lock(descriptor: int | None, *, wait: bool = False) -> bool | None:
    """Takes the kernel's lock on an open file; closing the file, or the end of the process, releases it.

    Returns False if another process has it, and None where the system, or its file server, has no such locks.
    """
    if fcntl is None or descriptor is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a UserError: the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/seq2seq_attn`, or `~/.cache/seq2seq_attn`. OSError: the user has no home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2seq_attn"
    except RuntimeError as error:
        raise OSError(f"{error}; set XDG_CACHE_HOME") from None


def created_cache_folder() -> Path:
    """The same, created if need be, for nobody but the user. UserError: it cannot be created."""
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the user's cache folder cannot be written: {error}") from None
    return folder
