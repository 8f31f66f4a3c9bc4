"""Reading files: bytes, and lines of text. What a file is, `contents.py` tells; every error names it and its line."""

from __future__ import annotations

import hashlib
import io
import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.contents import Stream, as_text, unpacked

MAX_LINE = 10_000_000  # bytes


@contextmanager
def open_file(path: Path | str, remedy: str = "") -> Iterator[io.BufferedReader]:
    """Open a file as it is. Raises UserError if it is missing, with the remedy, or cannot be read."""
    if "\0" in str(path):
        raise UserError(f"{shown(str(path))}: a path has no NUL in it")
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file{remedy}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder; give a file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def open_bytes(path: Path | str) -> Iterator[io.BufferedReader]:
    """Open a file and decompress it, if it is compressed. UserError as in `open_file`, or it cannot be decompressed."""
    with open_file(path) as file:
        yield unpacked(file, str(path))


@contextmanager
def open_text(path: Path | str) -> Iterator[io.BufferedReader]:
    """Open a file of text, which is read as UTF-8. UserError as in `open_file`, or it is not text (`contents.py`)."""
    with open_file(path) as file:
        yield as_text(file, str(path))


def read_bytes(path: Path | str) -> bytes:
    """The whole content of a file; decompression and errors as in `open_bytes`."""
    with open_bytes(path) as file:
        return file.read()


def sha256(path: Path | str) -> str:
    """The SHA-256 of a file as it is, compressed or not. UserError as in `open_file`."""
    with open_file(path) as file:
        return _sha256(file)


def digest(path: Path | str) -> str:
    """The SHA-256 of a file's text: a file and a compressed copy have the same. Errors as in `open_bytes`."""
    with open_bytes(path) as file:
        return _sha256(file)


def _sha256(file: io.BufferedReader) -> str:
    found = hashlib.sha256()
    while piece := file.read(1 << 20):
        found.update(piece)
    return found.hexdigest()


def decompressed(content: bytes, name: str) -> bytes:
    """The content, decompressed if it is compressed. UserError that names `name`: it is damaged."""
    return unpacked(io.BytesIO(content), name).read()


def read_lines(path: Path | str) -> list[str]:
    """The lines of a text file (`contents.as_text`), without line ends (`\\n` or `\\r\\n`).

    Only `\\n` ends a line: `str.splitlines` also splits at U+2028 or a form feed, which would shift one side of a
    parallel corpus against the other. Raises UserError for a file that is missing, empty or not text and, with the line
    number, for bytes that are not UTF-8, for a NUL and for a line of more than `MAX_LINE` bytes.
    """
    lines = list(iterate_lines(path))
    if not lines:
        raise UserError(f"{path}: the file is empty")
    return lines


def read_text(path: Path | str, most: int) -> str:
    """The text of a file, with `\\n` at the ends of lines; what comes after `most` characters may be left out.

    Some files have no end. UserError as in `read_lines`, but the file may be empty.
    """
    lines, count = [], 0
    for line in iterate_lines(path):
        lines.append(line)
        count += len(line) + 1
        if count > most:
            break
    return "\n".join(lines)


def iterate_lines(path: Path | str) -> Iterator[str]:
    """As `read_lines`, one line after another; an empty file has none."""
    with open_file(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(stream: Stream, name: str) -> Iterator[str]:
    """Iterate over the lines of a binary stream as in `read_lines`; `name` is the stream's name in error messages."""
    for number, line in _numbered_lines(as_text(stream, name), name, 1):
        yield _decoded(line, number, name)


class LineIndex(NamedTuple):
    """Where some lines of a text file begin."""

    lines: int  # of the file
    offsets: tuple[int, ...]  # of line 0, `every`, 2 `every` ...: bytes of its text as UTF-8, decompressed
    digest: str  # the SHA-256 of this text


def index_lines(path: Path | str, every: int) -> LineIndex:
    """Reads a text file once, in constant memory, so that `lines_from` can begin at each of these lines.

    UserError as in `read_lines`, but the file may be empty.
    """
    offset, count, offsets, found = 0, 0, [], hashlib.sha256()
    with open_text(path) as text:
        for number, line in _numbered_lines(text, str(path), 1):
            if count % every == 0:
                offsets.append(offset)
            _decoded(line, number, str(path))
            found.update(line)
            offset, count = offset + len(line), number
    return LineIndex(count, tuple(offsets), found.hexdigest())


def lines_from(path: Path | str, offset: int, first: int) -> Iterator[str]:
    """The lines of a text file from one of the offsets of `index_lines` on, which is that of line `first`, from 0."""
    with open_text(path) as text:
        left = offset
        while left and (piece := text.read(min(left, 1 << 20))):
            left -= len(piece)
        for number, line in _numbered_lines(text, str(path), first + 1):
            yield _decoded(line, number, str(path))


def _numbered_lines(text: io.BufferedReader, name: str, first: int) -> Iterator[tuple[int, bytes]]:
    """The lines from here on, the next of which is line `first`, counted from 1."""
    for number, line in enumerate(iter(lambda: text.readline(MAX_LINE + 1), b""), start=first):
        if len(line) > MAX_LINE and b"\0" not in line:
            raise UserError(f"{name}, line {number}: more than {MAX_LINE:,} bytes; give one sentence per line")
        yield number, line


def _decoded(line: bytes, number: int, name: str) -> str:
    if b"\0" in line:
        raise UserError(
            f"{name}, line {number}: a NUL, which no text has; give a text file in UTF-8, or convert it from its "
            f"encoding, as with: iconv -f UTF-16LE -t UTF-8"
        )
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if re.match(rb"\xed[\xa0-\xbf]", line[error.start :]):
            raise UserError(f"{name}, line {number}: half a surrogate pair, a damaged file; convert it again") from None
        raise UserError(
            f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); convert the file from its encoding, "
            f"as with: iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def line_batches(stream: Stream, name: str, most: int) -> Iterator[list[str]]:
    """The lines of a binary stream, in lists of those that can be read without waiting: at least one, at most `most`.

    A list ends as soon as reading on would have to wait, so that a line written into a pipe is not held back until
    others follow. Errors as in `decoded_lines`, after the lines before, and for a line of more than `MAX_LINE` bytes.
    """
    lines: list[str] = []
    number = 0
    try:
        for line in _lines_at_hand(as_text(stream, name), name):
            if line is not None:
                number += 1
                lines.append(_decoded(line, number, name))
            if len(lines) == most or (lines and line is None):
                yield lines
                lines = []
    except UserError:
        if lines:
            yield lines
        raise
    if lines:
        yield lines


def _lines_at_hand(stream: io.BufferedReader, name: str) -> Iterator[bytes | None]:
    """The lines of a stream, with None where reading on would have to wait."""
    rest = b""
    while piece := _read_available(stream, name):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE:
            raise UserError(f"{name}: a line of more than {MAX_LINE:,} bytes; give one sentence per line")
        if not _is_waiting(stream):
            yield None
    if rest:
        yield rest


def _read_available(stream: io.BufferedReader, name: str) -> bytes:
    """What can be read without waiting for more; waits for the first byte. Empty at the end."""
    try:
        return stream.read1(1 << 16)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None


def _is_waiting(stream: io.BufferedReader) -> bool:
    """Whether reading on would return at once; False where the system cannot tell, as for a pipe on Windows."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False
