"""Locks: one process at a time writes to a folder.

The lock is a file that its owner holds with `flock`: the kernel releases it however the process ends, so that a lock
left by a kill is free at once. The file names its owner: process, host, start and command. The owner renews its
modification time, the heartbeat. The heartbeat decides where the kernel cannot: some network file systems keep locks
on each host for itself, and others have none. There, a lock is free once its heartbeat is `STALE` seconds old.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import explained, kernel_lock, unfinished_in
from seq2seq_attn.text.json_files import STRICT, load_record

LOCK = ".lock"  # in a folder

BEAT = 20.0  # seconds between two heartbeats
STALE = 300.0  # seconds after the last heartbeat: the owner has ended, or its host has
_TRIES = 100  # to open a lock in a folder that others create and remove
_SETTLE = 0.2  # seconds after which another process that took the lock without `flock` would show


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
    key = (path.absolute(), threading.get_ident())
    if key in _held:
        yield
        return
    folder, lock = path.parent, _Lock(path)
    is_new = not folder.exists()
    try:
        lock.acquire(wait)
        _held[key] = lock
        try:
            yield
        finally:
            del _held[key]
            lock.release()
    finally:
        if is_new:
            with suppress(OSError):  # not empty
                folder.rmdir()


def require_lock(folder: Path) -> None:
    """UserError if this thread has lost the lock of a folder: it was suspended, and another host took the lock over."""
    lock = _held[(folder / LOCK).absolute(), threading.get_ident()]
    with explained(lock.path):
        is_ours = lock.is_ours()
    if not is_ours:
        raise UserError(f"{folder}: was taken over by {_owner(lock.path)}; this process no longer writes to it")


def _owner(path: Path) -> str:
    """Who holds the lock file: process, host, start and command, as far as they can be read."""
    for _ in range(20):
        if (told := _read(path)) is not None:
            return f"process {told.pid} on {told.host}, since {told.since} ({told.command})"
        time.sleep(0.05)  # it has the lock, and is about to sign it
    return "another process"


@dataclass(frozen=True, config=STRICT)
class _Owner:
    """What the owner of a lock writes into its file."""

    pid: Annotated[int, Field(gt=0, lt=2**31)]
    host: str
    since: str
    command: str
    kernel: str
    id: str


_OWNER = TypeAdapter(_Owner)


class _Lock:
    """A lock file; its heartbeat is a thread that ends with the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = uuid4().hex
        self._left = threading.Event()

    def acquire(self, wait: bool) -> None:
        pause = 0.05
        while not self._take():
            if not wait:
                raise BusyError(
                    f"{self.path.parent}: in use by {_owner(self.path)}; wait until it ends, or name another folder"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        threading.Thread(target=self._beat, daemon=True).start()

    def release(self) -> None:
        self._left.set()
        is_ours = False
        with suppress(OSError):
            is_ours = self.is_ours()
            if is_ours:
                os.ftruncate(self.file, 0)
                self.path.unlink()  # a process that has opened this file already finds another one, see `_take`
                is_ours = False
        os.close(self.file)
        if is_ours:  # Windows removes no file that is open, ours now, or another process's from here on
            with suppress(OSError):
                self.path.unlink()

    def is_ours(self) -> bool:
        told = _read(self.path)
        return told is not None and told.id == self.id

    def _take(self) -> bool:
        """Whether the lock is taken now. A file that was opened before its owner removed it does not count."""
        with explained(self.path.parent):
            self.file = self._open()
        try:
            with explained(self.path):
                answer = self._flock()
                by_kernel = answer is True
                if answer is not False and self._is_current() and self._is_free(by_kernel) and self._sign(by_kernel):
                    return True
        except BaseException:
            os.close(self.file)
            raise
        os.close(self.file)
        return False

    def _open(self) -> int:
        for _ in range(_TRIES):
            with suppress(FileExistsError, FileNotFoundError):  # another owner removes the folder, see `file_locked`
                return self._open_once()
        return self._open_once()

    def _open_once(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)

    def _flock(self) -> bool | None:
        """True if the kernel gave the lock to this process, False if another has it, None without such locks."""
        try:
            return kernel_lock(self.file)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be locked: {error.strerror}") from None

    def _is_current(self) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self.file), self.path.stat())
        return False

    def _is_free(self, by_kernel: bool) -> bool:
        """Whether nobody has signed the file who may still be at work, though the kernel knows of no owner."""
        told = _read(self.path)
        if told is None:
            return True
        if told.kernel == _kernel() and (by_kernel or not _is_alive(told.pid)):
            return True
        return self._now() - os.fstat(self.file).st_mtime > STALE

    def _now(self) -> float:
        """The time by the clock that dates the heartbeats, which may be a file server's."""
        with unfinished_in(self.path.parent) as probe:
            return probe.stat().st_mtime

    def _sign(self, by_kernel: bool) -> bool:
        """Writes the owner into the file; False if another process signed it at the same time."""
        before = _read(self.path)
        is_foreign = before is not None and before.kernel != _kernel()
        owner = _Owner(
            pid=os.getpid(),
            host=platform.node(),
            since=datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            kernel=_kernel(),
            id=self.id,
        )
        os.ftruncate(self.file, 0)
        os.lseek(self.file, 0, os.SEEK_SET)
        os.write(self.file, _OWNER.dump_json(owner) + b"\n")
        if is_foreign or not by_kernel:
            time.sleep(_SETTLE)
        return self.is_ours()

    def _beat(self) -> None:
        while not self._left.wait(BEAT):
            with suppress(OSError):
                if self.is_ours():
                    os.utime(self.path)


def _read(path: Path) -> _Owner | None:
    """What the owner has written; None if the file is missing, damaged, or just being written. OSError: it is neither,
    but cannot be read."""
    with suppress(FileNotFoundError, NotADirectoryError):
        path.open("rb").close()
        with suppress(UserError):
            return load_record(_OWNER, path)
    return None


def _kernel() -> str:
    """An identifier of the running kernel. Its processes share `flock`, and containers on a host share its kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":  # there, signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


_held: dict[tuple[Path, int], _Lock] = {}  # by file and thread
