"""Reading text files, plain or gzip, and writing files atomically."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import select
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.limits import unpacked

_GZIP_MAGIC = b"\x1f\x8b"  # UTF-8 text cannot start so: 8b never follows an ASCII byte
_ZIP_MAGIC = b"PK\x03\x04"
_GZIP_ERRORS = EOFError, zlib.error, gzip.BadGzipFile


@contextmanager
def open_bytes(path: Path | str) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading; gzip is recognised by its content, not its name, and decompressed.

    Raises UserError if the file is missing, unreadable, a broken gzip file or a zip archive, or if it decompresses to
    far more than text does (`limits.py`).
    """
    if "\0" in str(path):
        raise UserError(f"{shown(str(path))}: a path has no NUL in it")
    try:
        with Path(path).open("rb") as file:
            start = file.peek(4)
            if start.startswith(_ZIP_MAGIC):
                raise UserError(f"{path}: a zip archive; unpack it (unzip {path}) and give the text files in it")
            yield unpacked(file, str(path)) if start.startswith(_GZIP_MAGIC) else file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except _GZIP_ERRORS as error:
        raise _broken_gzip(path, error) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def read_bytes(path: Path | str) -> bytes:
    """The whole content of a file; decompression and errors as in `open_bytes`."""
    with open_bytes(path) as file:
        return file.read()


def digest(path: Path | str) -> str:
    """The SHA-256 of a file's content; decompression and errors as in `open_bytes`."""
    sha256 = hashlib.sha256()
    with open_bytes(path) as file:
        while piece := file.read(1 << 20):
            sha256.update(piece)
    return sha256.hexdigest()


def decompressed(content: bytes, name: str) -> bytes:
    """`content`, decompressed if it is gzip. Raises UserError that names `name` if it is corrupt."""
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return unpacked(io.BytesIO(content), name).read()
    except _GZIP_ERRORS as error:
        raise _broken_gzip(name, error) from None


def _broken_gzip(name: Path | str, error: Exception) -> UserError:
    return UserError(f"{name}: incomplete or corrupt gzip file ({error}); download or copy it again")


def read_lines(path: Path | str) -> list[str]:
    """The lines of a UTF-8 file, without line ends (`\\n` or `\\r\\n`) and byte-order mark.

    Only `\\n` ends a line: `str.splitlines` also splits at U+2028 or a form feed, which would shift one side of a
    parallel corpus against the other. Raises UserError for a missing or empty file and, with the line number, for
    bytes that are not UTF-8 and for a line of more than `MAX_LINE` bytes.
    """
    lines = list(iterate_lines(path))
    if not lines:
        raise UserError(f"{path}: the file is empty")
    return lines


def iterate_lines(path: Path | str) -> Iterator[str]:
    """As `read_lines`, one line after another; an empty file has none."""
    with open_bytes(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(stream: io.BufferedIOBase | BinaryIO, name: str) -> Iterator[str]:
    """Iterate over the lines of a binary stream as in `read_lines`; `name` is the stream's name in error messages."""
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), start=1):
        if len(line) > MAX_LINE:
            raise UserError(f"{name}, line {number}: more than {MAX_LINE:,} bytes; give one sentence per line")
        yield _decoded(line, number, name)


def _decoded(line: bytes, number: int, name: str) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if number == 1 and line.startswith(b"\x1f\x8b"):
            raise UserError(
                f"{name}: compressed with gzip; give the file by its name, or decompress it with zcat"
            ) from None
        raise UserError(
            f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); "
            f"convert the file, for example with iconv -f LATIN1 -t UTF-8"
        ) from None
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.removesuffix("\n").removesuffix("\r")


def line_batches(stream: io.BufferedIOBase | BinaryIO, name: str, most: int) -> Iterator[list[str]]:
    """The lines of a binary stream, in lists of those that can be read without waiting: at least one, at most `most`.

    A list ends as soon as reading on would have to wait, so that a line written into a pipe is not held back until
    others follow. Errors as in `decoded_lines`, after the lines before, and for a line of more than `MAX_LINE` bytes.
    """
    number = 0
    for batch in _raw_batches(stream, name, most):
        lines: list[str] = []
        mistake: UserError | None = None
        for line in batch:
            number += 1
            try:
                lines.append(_decoded(line, number, name))
            except UserError as error:
                mistake = error
                break
        if lines:
            yield lines
        if mistake is not None:
            raise mistake


def _raw_batches(stream: io.BufferedIOBase | BinaryIO, name: str, most: int) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    rest = b""
    while piece := _read_available(stream, name):
        *whole, rest = (rest + piece).split(b"\n")
        lines += whole
        if len(rest) > MAX_LINE:
            if lines:
                yield lines
            raise UserError(f"{name}: a line of more than {MAX_LINE:,} bytes; give one sentence per line")
        while len(lines) >= most:
            yield lines[:most]
            del lines[:most]
        if lines and not _is_waiting(stream):
            yield lines
            lines = []
    lines += [rest] if rest else []
    if lines:
        yield lines


MAX_LINE = 10_000_000  # bytes


def _read_available(stream: io.BufferedIOBase | BinaryIO, name: str) -> bytes:
    """What can be read without waiting for more; waits for the first byte. Empty at the end."""
    try:
        return stream.read1(1 << 16)  # type: ignore[union-attr]  # what stdin is has it
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None


def _is_waiting(stream: io.BufferedIOBase | BinaryIO) -> bool:
    """Whether reading on would return at once; False where the system cannot tell, as for a pipe on Windows."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False


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
    descriptor = os.open(path, os.O_RDONLY)
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
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.touch()
            mode = unfinished.stat().st_mode
        yield unfinished
        with explained(path):
            unfinished.chmod(mode)
            sync(unfinished)
            install(unfinished, path)
    finally:
        with suppress(OSError):  # renamed already, or never created
            unfinished.unlink()


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
