"""What takes long and follows from files alone, kept for the runs to come.

An entry is a folder that is named by the digest of all that it is made from. So it is never out of date, and two
processes that make it at once write the same bytes. `SHA256SUMS` is written last; an entry whose files are not as it
says is made anew. Delete the cache at any time: what is missing is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import digest, write_bytes

Made = TypeVar("Made")

_SUMS = "SHA256SUMS"  # as sha256sum writes and checks it


class Cache:
    """Entries in a folder; `say` is told of those that cannot be written."""

    def __init__(self, folder: Path, say: Callable[[str], object] = lambda _: None) -> None:
        self.folder = folder
        self.say = say

    def get(
        self,
        made_from: str,
        make: Callable[[], Made],
        save: Callable[[Made, Path], object],
        load: Callable[[Path], Made],
    ) -> Made:
        """What `make` gives, by way of the entry that `save` writes and `load` reads."""
        entry = self.folder / hashlib.sha256(made_from.encode()).hexdigest()
        kept = _read(entry, load)
        if kept is not None:
            return kept
        made = make()
        try:
            save(made, entry)
            write_bytes(entry / _SUMS, _sums(entry))
        except (UserError, OSError) as error:
            self.say(f"warning: the next run has to tokenise again: {error}")
            return made
        kept = _read(entry, load)  # as every other run will have it: mapped from its files
        return made if kept is None else kept


def _read(entry: Path, load: Callable[[Path], Made]) -> Made | None:
    """None if the entry is not there, or not as it was written."""
    try:
        return load(entry) if (entry / _SUMS).read_bytes() == _sums(entry) else None
    except (UserError, OSError, ValueError):
        return None


def _sums(entry: Path) -> bytes:
    """A line for each file of the entry, but those that another process is writing."""
    files = sorted(path for path in entry.iterdir() if path.name != _SUMS and path.suffix != ".part")
    return "".join(f"{digest(path)}  {path.name}\n" for path in files).encode()
