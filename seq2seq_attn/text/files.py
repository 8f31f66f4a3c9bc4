"""Lines of text from a file, plain or gzip, and files that are written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seq2seq_attn.errors import UserError

_GZIP_MAGIC = b"\x1f\x8b"  # never the start of UTF-8 text: 8b cannot follow an ASCII byte
_GZIP_ERRORS = EOFError, zlib.error, gzip.BadGzipFile


@contextmanager
def open_bytes(path: Path | str) -> Iterator[io.BufferedIOBase]:
    """The file, opened to be read, decompressed on the way if it is gzip, whatever its name ends in.

    Raises UserError if the file is missing, unreadable or a broken gzip file.
    """
    try:
        with Path(path).open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if file.peek(2).startswith(_GZIP_MAGIC) else file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except _GZIP_ERRORS as error:
        raise _broken_gzip(path, error) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def read_bytes(path: Path | str) -> bytes:
    """The file's whole content; decompression and errors as of `open_bytes`."""
    with open_bytes(path) as file:
        return file.read()


def digest(path: Path | str) -> str:
    """The SHA-256 of the file's content; decompression and errors as of `open_bytes`."""
    sha256 = hashlib.sha256()
    with open_bytes(path) as file:
        while piece := file.read(1 << 20):
            sha256.update(piece)
    return sha256.hexdigest()


def decompressed(content: bytes, name: str) -> bytes:
    """`content` without its gzip wrapping, if it has one; a broken one is a UserError about `name`."""
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except _GZIP_ERRORS as error:
        raise _broken_gzip(name, error) from None


def _broken_gzip(name: Path | str, error: Exception) -> UserError:
    return UserError(f"{name}: not a whole gzip file ({error}); fetch or copy it again")


def read_lines(path: Path | str) -> list[str]:
    """The lines of a UTF-8 file, without their ends (`\\n` or `\\r\\n`) and without a byte-order mark.

    Only `\\n` ends a line: `str.splitlines` would also cut at U+2028 or a form feed and shift one side of a
    parallel corpus against the other. Raises UserError for a missing or empty file, and with the line number
    for bytes that are not UTF-8.
    """
    content = read_bytes(path)
    if not content:
        raise UserError(f"{path}: the file is empty")
    return list(decoded_lines(io.BytesIO(content), str(path)))


def decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of a binary stream one by one, as `read_lines` gives them; `name` stands in the error."""
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); "
                f"convert the file, for example with iconv -f LATIN1 -t UTF-8"
            ) from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file under a temporary name beside its place, then rename it: nobody sees half of it."""
    with writing(path) as file, explained(path):
        file.write(content)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to be written piece by piece; it gets its name when the block ends, and is gone if an exception ends it.

    Write into it under `explained`: what else goes wrong in the block is not the file's fault.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = unfinished.open("wb")
        try:
            yield file
        finally:
            with explained(path):
                file.close()  # writes what is left in its buffer
        with explained(path):
            os.replace(unfinished, path)
    finally:
        with suppress(OSError):  # renamed already, or never there
            unfinished.unlink()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """An OSError of the block as a UserError: the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
