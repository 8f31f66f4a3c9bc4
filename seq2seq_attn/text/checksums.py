"""The SHA-256 of the files in a folder, in its file `SHA256SUMS`: written with them, checked when they are read.

The format is that of the command `sha256sum`, so `sha256sum --check SHA256SUMS` checks all files of a folder. While a
file is replaced, two lines name it, one for the old content and one for the new: whenever the process ends, each file
is as recorded. A file without a line is not checked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import explained, kernel_lock, opened_to_lock, write_bytes

SUMS = "SHA256SUMS"

_LINE = re.compile("([0-9a-f]{64})  (.+)")

Sums = dict[str, frozenset[str]]  # the permitted checksums of each file, by its path relative to the folder


def sha256(path: Path) -> str:
    """The SHA-256 of a file as it is, compressed or not."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def read_sums(folder: Path) -> Sums:
    """The recorded checksums of a folder; empty if it has none. UserError: a line is malformed."""
    path = folder / SUMS
    sums: Sums = {}
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return sums
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise UserError(
                f"{path}, line {number}: damaged, not a checksum and the name of a file; restore the file, or delete "
                f"the line, which leaves one file unchecked"
            )
        sums[found[2]] = sums.get(found[2], frozenset()) | {found[1]}
    return sums


def checked(folder: Path, name: str) -> Path:
    """The path of a file in the folder. UserError if its content is not the recorded one.

    A file without a record is accepted, and so is a missing one: the caller knows whether it may be missing.
    """
    path, known = folder / name, read_sums(folder).get(name)
    while known is not None and path.exists() and _sha256_of(path) not in known:
        now = read_sums(folder).get(name)
        if now == known:
            raise UserError(
                f"{path}: damaged or edited, its SHA-256 is not the one in {SUMS}; restore it or write it again, or, "
                f"to use it as it is, delete its line in {folder / SUMS}"
            )
        known = now  # another process has just replaced the file
    return path


def _sha256_of(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def recording(folder: Path, sums: Mapping[str, str | None]) -> Iterator[None]:
    """The block writes these files, or removes them, for None.

    During it, their content is the recorded one or this, and after it this alone.
    """
    with _locked(folder):
        before = read_sums(folder)
        after = before | {name: frozenset(filter(None, [each])) for name, each in sums.items()}
        during = {name: each | before.get(name, each) for name, each in after.items()}
        _write(folder, during)
        yield
        if during != after:
            _write(folder, after)


def write_recorded(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write and record files of the folder, each atomically."""
    with recording(folder, {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}):
        for name, content in contents.items():
            write_bytes(folder / name, content)


def record(folder: Path, names: Iterable[str]) -> None:
    """Record files that something else has written."""
    with explained(folder / SUMS):
        sums = {name: sha256(folder / name) for name in names}
    with recording(folder, sums):
        pass


def _write(folder: Path, sums: Sums) -> None:
    lines = (f"{each}  {name}\n" for name in sorted(sums) for each in sorted(sums[name]))
    write_bytes(folder / SUMS, "".join(lines).encode())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Processes that record files in one folder at the same time wait for each other, for milliseconds."""
    with ExitStack() as lock:
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            kernel_lock(lock.enter_context(opened_to_lock(folder)), wait=True)
        yield
