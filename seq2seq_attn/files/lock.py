"""Locks: one process, and one thread of it, writes to a folder at a time.

A lock is a file that `filelock` holds with the lock of the operating system. That ends with its process, however the
process ends, so a lock that a kill left behind is free at once. While a lock is held, its file names the owner. Several
hosts exclude each other where their file system shares its locks between them, as NFS does. On a file system without
locks, `SoftFileLock` of the same library takes over: there, the lock of a host that was switched off stays, and is
removed by hand.
"""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from seq2seq_attn.errors import UserError

LOCK = ".lock"  # in a folder
FOREVER = -1.0  # seconds

_TRIES = 10  # to open a lock in a folder that others create and remove


class BusyError(UserError):
    """Another process, or another thread of this one, holds the lock."""


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a folder, which is created if it is missing and removed again if it stays empty.

    A thread that holds a lock may enter it again. Raises BusyError with the owner, or waits for it with `wait`;
    UserError if the folder cannot be written.
    """
    with file_locked(folder / LOCK, wait=wait):
        yield


@contextmanager
def file_locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock that is the file `path`; otherwise as `locked`."""
    folder = path.parent
    with ExitStack() as stack:
        if not folder.exists():
            stack.callback(_remove_if_empty, folder)
        try:
            lock = stack.enter_context(held(path, FOREVER if wait else 0.0))
        except Timeout:
            raise BusyError(f"{folder}: in use by {_owner(path)}; wait until it ends, or name another folder") from None
        except OSError as error:
            raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
        if lock.lock_counter == 1 and not isinstance(lock, SoftFileLock):  # which names its owner in the same way
            with suppress(OSError):
                path.write_text(f"{os.getpid()}\n{platform.node()}\n")
        yield


@contextmanager
def held(path: Path, seconds: float) -> Iterator[BaseFileLock]:
    """Holds the lock that is the file `path`, which is removed at the end; waits for it this long.

    Raises Timeout if another process or thread has it, OSError if it cannot be created.
    """
    path = path.absolute()
    lock = FileLock(path, is_singleton=True)
    _acquire(lock, path, seconds)
    try:
        yield lock
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):  # Windows removes no file that is open
                path.unlink()  # whoever has opened it already finds that out, and opens another one
        lock.release()


def _acquire(lock: BaseFileLock, path: Path, seconds: float) -> None:
    for _ in range(_TRIES):
        if (failure := _try_to_acquire(lock, path, seconds)) is None:
            return
    assert failure is not None
    raise failure


def _try_to_acquire(lock: BaseFileLock, path: Path, seconds: float) -> OSError | None:
    """None, or an error that may be gone at once: the owner has just removed the lock, and perhaps its folder."""
    try:
        lock.acquire(seconds, blocking=seconds != 0)
    except Timeout:
        if path.exists():
            raise
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except (FileExistsError, FileNotFoundError) as error:
        return error
    return None


def is_locked(folder: Path) -> bool:
    """Whether the lock of a folder names an owner that may be alive: on another host, or a living process of this one.

    Nothing is locked meanwhile, so this may be wrong a moment later.
    """
    try:
        pid, host = _recorded(folder / LOCK)
        if host == platform.node() and os.name == "posix":
            os.kill(pid, 0)
    except PermissionError:  # the process of another user
        return True
    except (OSError, ValueError):
        return False
    return True


def _owner(path: Path) -> str:
    with suppress(OSError, ValueError):
        return "process {} on {}".format(*_recorded(path))
    return "another process"


def _recorded(path: Path) -> tuple[int, str]:
    pid, host, *_ = path.read_text().split("\n")
    return int(pid), host


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
