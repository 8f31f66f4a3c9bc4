"""The manifest of a folder, its file `SHA256SUMS`: written with the files that it lists, checked when they are read.

The format is that of the command `sha256sum`, so `sha256sum --check SHA256SUMS` checks all files of a folder. The first
line is a comment that marks a folder of this program. While a file is replaced, two lines name it, one for the old
content and one for the new: whenever the process ends, each file is as recorded. A file without a line is not checked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.lock import locked
from seq2seq_attn.files.reading import sha256
from seq2seq_attn.files.writing import write_bytes

SUMS = "SHA256SUMS"

_MARK = "# seq2seq_attn"  # the first line
_LINE = re.compile("([0-9a-f]{64})  (.+)")

Sums = dict[str, frozenset[str]]  # the permitted checksums of each file, by its path relative to the folder


def has_sums(folder: Path) -> bool:
    """Whether the folder has a manifest of this program, and not another file of that name."""
    with suppress(OSError), (folder / SUMS).open("rb") as file:
        return file.readline(80) == f"{_MARK}\n".encode()
    return False


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
    lines = content.decode("utf-8", errors="replace").splitlines() or [""]
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is not None:
            sums[found[2]] = sums.get(found[2], frozenset()) | {found[1]}
        elif number > 1 or line != _MARK:
            raise UserError(
                f"{path}, line {number}: damaged, not a checksum and the name of a file; restore the file, or delete "
                f"the line, which leaves one file unchecked"
            )
    return sums


def checked(folder: Path, name: str) -> Path:
    """The path of a file in the folder. UserError if its content is not the recorded one.

    A file without a record is accepted, and so is a missing one: the caller knows whether it may be missing.
    """
    path, known = folder / name, read_sums(folder).get(name)
    while known is not None and path.exists() and sha256(path) not in known:
        now = read_sums(folder).get(name)
        if now == known:
            raise UserError(
                f"{path}: damaged or edited, its SHA-256 is not the one in {SUMS}; restore it or write it again, or, "
                f"to use it as it is, delete its line in {folder / SUMS}"
            )
        known = now  # another process has just replaced the file
    return path


def is_whole(folder: Path) -> bool:
    """Whether the folder has a manifest, and its files are as they were recorded."""
    try:
        return has_sums(folder) and not damaged(folder)
    except (UserError, OSError):
        return False


def damaged(folder: Path) -> list[str]:
    """One line for each recorded file that is damaged or edited; a missing one is neither."""
    return [damage for name in read_sums(folder) if (damage := _damage(folder, name)) is not None]


def _damage(folder: Path, name: str) -> str | None:
    try:
        checked(folder, name)
    except UserError as error:
        return str(error)
    return None


@contextmanager
def recording(folder: Path, sums: Mapping[str, str | None]) -> Iterator[None]:
    """The block writes these files, or removes them, for None; the lock of the folder is held.

    During it, their content is the recorded one or this, and after it this alone.
    """
    with locked(folder, wait=True):
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
    """Record files that something else has written; without any, this begins a manifest."""
    with recording(folder, {name: sha256(folder / name) for name in names}):
        pass


def _write(folder: Path, sums: Sums) -> None:
    lines = (f"{each}  {name}\n" for name in sorted(sums) for each in sorted(sums[name]))
    write_bytes(folder / SUMS, "".join([f"{_MARK}\n", *lines]).encode())
