"""Writing files: each is replaced as a whole, or not at all, however the process ends.

What is unfinished has a name of its own in the folder of its destination, `.seq2seq_attn.*.part`, and a lock beside it,
which ends with its writer. Whoever writes to the folder next removes what nobody holds.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.lock import held
from seq2seq_attn.files.reading import read_bytes

PART = ".seq2seq_attn.*.part*"  # the names of files and folders that are being written, and of their locks

_PATIENCE = 60.0  # seconds to wait for another process, which sees that a part is not abandoned


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
    path = folder / f".seq2seq_attn.{uuid4().hex}.part"

    def create() -> None:
        if is_folder:
            path.mkdir(exist_ok=True)
        else:
            path.touch()

    try:
        create()
        with held(_lock_of(path), _PATIENCE):
            create()  # again, if another process took it for abandoned before it was locked
            yield path
    finally:
        with suppress(OSError):
            _remove(path)


def remove_abandoned(folder: Path) -> None:
    """Removes what processes were writing in a folder when they were killed, and nothing that a living one writes."""
    with suppress(OSError):
        for found in folder.glob(PART):
            path = found.with_suffix("") if found.suffix == ".lock" else found
            with suppress(OSError), held(_lock_of(path), 0.0) as lock:  # Timeout, an OSError: its writer is alive
                if lock.lock_counter == 1:  # otherwise, this thread writes it
                    _remove(path)


def _lock_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.lock")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a UserError: the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


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
