"""Limits on what a file may turn into: how far compressed data may expand.

A few megabytes of gzip can hold gigabytes. Real text shrinks to a tenth at most, and repetitive text to a hundredth.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from seq2seq_attn.errors import UserError

RATIO = 100  # decompressed by compressed size; tested above FREE bytes only
FREE = 64 << 20  # bytes that any file may decompress to
SIZE = 20 << 30  # bytes that no file may exceed

VARIABLE = "SEQ2SEQ_ATTN_MAX_UNPACKED"  # environment variable: a number of bytes that replaces both limits


class _Counted(io.RawIOBase):
    """A file, or a pipe, which has no position: counts the bytes that are read from it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        self.count += len(content)
        return len(content)


class Unpacked(io.RawIOBase):
    """The content of a file that `unpack` decompresses; UserError if it is damaged, or expands beyond the limits.

    A file may decompress to `FREE` bytes, and beyond that to `RATIO` times its size, but not to more than `SIZE` bytes.
    If the environment variable is set, its number of bytes is the only limit.
    """

    def __init__(self, file: BinaryIO, name: str, packing: str, unpack: Callable[[BinaryIO], Any]) -> None:
        super().__init__()
        self._file, self._name, self._packing = _Counted(file), name, packing
        self._content = unpack(io.BufferedReader(self._file))
        self._read = 0
        self._given = _given_limit()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._content.readinto(buffer)
        except (UserError, MemoryError):
            raise
        except Exception as error:  # each library has its own
            if isinstance(error, OSError) and error.errno is not None:  # of the file, not of what is in it
                raise
            raise UserError(
                f"{self._name}: incomplete or corrupt {self._packing} file ({error}); download or copy it again"
            ) from None
        self._read += count
        limit = self._given or min(SIZE, max(FREE, RATIO * self._file.count))
        if self._read > limit:
            raise UserError(
                f"{self._name}: decompresses to more than {limit:,} bytes, unlike text of this compressed size; "
                f"if the file is to be read all the same, set {VARIABLE} to the bytes to allow"
            )
        return count


def _given_limit() -> int | None:
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UserError(f"{VARIABLE}={text[:40]!r} in the environment: a number of bytes is wanted, or nothing")
    return int(text) if text else None
