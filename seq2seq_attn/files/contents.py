"""What a file is, by its first bytes and whatever its name: text, compressed text, or something that is not text.

`as_text` makes UTF-8 of whatever holds text: gzip, xz, bzip2 and zstd are decompressed, UTF-16 is decoded, and byte
order marks are removed. Anything else is refused by its name, with the way to make text of it: nothing is ever guessed.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from seq2seq_attn.errors import UserError

# A few megabytes of gzip can hold gigabytes. Real text shrinks to a tenth at most, and repetitive text to a hundredth.
RATIO = 100  # decompressed by compressed size; tested above FREE bytes only
FREE = 64 << 20  # bytes that any file may decompress to
SIZE = 20 << 30  # bytes that no file may exceed
VARIABLE = "SEQ2SEQ_ATTN_MAX_UNPACKED"  # environment variable: a number of bytes that replaces these limits

HEAD = 512  # bytes that tell any of the kinds; the longest is a tar archive, whose name comes after 257
SUFFIXES = (".gz", ".xz", ".bz2", ".zst")  # of names whose rest tells the language; what a file is, its content tells

Stream = io.BufferedIOBase | BinaryIO


class _Packing(NamedTuple):
    """A format of compressed files."""

    name: str
    start: re.Pattern[bytes]
    command: str  # that decompresses a file
    unpack: Callable[[BinaryIO], Any]  # imports its library, which a build of Python may lack


def _zstd(file: BinaryIO) -> Any:
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"  # the same code
    return import_module(module).ZstdFile(file)


_PACKINGS = (
    _Packing("gzip", re.compile(rb"\x1f\x8b"), "gzip -d", lambda file: import_module("gzip").GzipFile(fileobj=file)),
    _Packing("xz", re.compile(rb"\xfd7zXZ\0"), "xz -d", lambda file: import_module("lzma").LZMAFile(file)),
    _Packing(
        "bzip2",
        re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
        "bzip2 -d",
        lambda file: import_module("bz2").BZ2File(file),
    ),
    _Packing("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd -d", _zstd),
)


class _Foreign(NamedTuple):
    """A format that is not text, and how to get text out of it."""

    start: re.Pattern[bytes]
    name: str
    way_out: str


def _foreign(start: bytes, name: str, way_out: str) -> _Foreign:
    return _Foreign(re.compile(start, re.DOTALL), name, way_out)


_UNPACK = "unpack it, and give the text files in it"
_AS_TEXT = "save it as plain text in UTF-8"
_EXPORT = "write the sentences in it as text, one per line, with the program or library that made it"
_PATHS = "where such files are read, a text file with their paths, one per line"
_MODEL = "name it where a model or vectors are wanted"
_FOREIGN = (
    _foreign(rb"\xff\xfe\0\0|\0\0\xfe\xff", "UTF-32", "convert it with: iconv -f UTF-32 -t UTF-8"),
    _foreign(
        rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|docProps/|word/|xl/|ppt/|mimetypeapplication/)",
        "a document of a word processor or spreadsheet",
        _AS_TEXT,
    ),
    _foreign(rb"PK\x03\x04.{26}[^\n]{1,80}(data\.pkl|/byteorder|/version)", "a file of torch.save", _MODEL),
    _foreign(rb"PK\x03\x04.{26}[^\n]{1,80}\.npy", "NumPy arrays", _EXPORT),
    _foreign(rb"PK(\x03\x04|\x05\x06)", "a zip archive", "unpack it (unzip {name}) and give the text files in it"),
    _foreign(rb".{257}ustar", "a tar archive", "unpack it (tar -xf {name}) and give the text files in it"),
    _foreign(rb"7z\xbc\xaf|Rar!\x1a\x07", "an archive", _UNPACK),
    _foreign(rb"\x1f[\x9d\xa0]|\x04\x22\x4d\x18|LZIP\x01", "compressed in a format that is not read", "decompress it"),
    _foreign(rb"%PDF-\d", "a PDF", "extract its text, as with pdftotext"),
    _foreign(rb"\{\\rtf\d|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of a word processor or spreadsheet", _AS_TEXT),
    _foreign(rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP", "an image", f"give its text, or {_PATHS}"),
    _foreign(
        rb"RIFF....WAVE|fLaC[\0\x80]\0|OggS\0|ID3[\2-\4]\0|\xff[\xf2-\xfb]",
        "a recording",
        f"give its transcript, or {_PATHS}",
    ),
    _foreign(rb"PAR1\x15", "a table of columns (Parquet)", "name it, and two of its columns, as a `table` of the data"),
    _foreign(rb"ARROW1\0|Obj\x01|ORC\x08", "a table of columns (Arrow, Avro or ORC)", _EXPORT),
    _foreign(rb"SQLite format 3\0", "an SQLite database", _EXPORT),
    _foreign(rb"\x80[\x02-\x05]", "a Python pickle", _EXPORT),
    _foreign(rb"\x93NUMPY", "a NumPy array", f"give text, or {_PATHS}"),
    _foreign(rb"\x89HDF", "arrays (HDF5)", _EXPORT),
    _foreign(rb".{7}\0\{\"", "safetensors", _MODEL),
    _foreign(rb"\x7fELF|MZ\x90\0", "a program", "give a text file"),
)

_UTF_8, _UTF_16 = codecs.BOM_UTF8, (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PIECE = 1 << 16  # bytes


def as_text(stream: Stream, name: str) -> io.BufferedReader:
    """The text of a binary stream as UTF-8, decompressed and without byte order mark. `name` is its name in messages.

    Reads no more of the stream than tells what it is: of text, at most its first line. UserError: it is known not to be
    text, or compressed twice, damaged, or of a format whose library is not installed.
    """
    head, whole = _head(stream)
    packed = ""
    if (packing := _packing(head)) is not None:
        head, whole = _head(_unpacked(whole, name, packing))
        if (twice := _packing(head)) is not None:
            raise UserError(f"{name}: compressed twice, with {packing.name} and {twice.name}; decompress it once")
        packed = f", compressed with {packing.name}"
    for kind in _FOREIGN:
        if kind.start.match(head):
            raise UserError(f"{name}: {kind.name}{packed}, not text; {kind.way_out.format(name=name)}")
    if head.startswith(_UTF_16):
        return _Pieces(_from_utf16(iter(lambda: whole.read1(_PIECE), b"")), stream).buffered()
    if (order := _unmarked_utf16(head)) is not None:
        raise UserError(
            f"{name}: UTF-16 without the byte order mark that says so; convert it with: iconv -f {order} -t UTF-8"
        )
    if head.startswith(_UTF_8):
        whole.read(len(_UTF_8))
    return whole


def unpacked(stream: Stream, name: str) -> io.BufferedReader:
    """The bytes of a stream, decompressed if it is compressed. UserError: it is damaged, or its library is missing."""
    head, whole = _head(stream)
    packing = _packing(head)
    return whole if packing is None else _unpacked(whole, name, packing)


def without_packing(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def _head(stream: Stream) -> tuple[bytes, io.BufferedReader]:
    """The first `HEAD` bytes, or as many as tell that it is text, and the stream from its beginning."""
    head = b""
    while len(head) < HEAD and (b"\0" in head or b"\n" not in head):
        if len(head) > 3 and head.startswith(_UTF_16):  # whose NULs tell nothing
            break
        piece = stream.read1(HEAD - len(head))  # type: ignore[union-attr]  # a BinaryIO that is read here has it
        if not piece:
            break
        head += piece

    def pieces() -> Iterator[bytes]:
        yield from filter(None, [head])
        yield from iter(lambda: stream.read1(_PIECE), b"")  # type: ignore[union-attr]

    return head, _Pieces(pieces(), stream).buffered()


def _packing(head: bytes) -> _Packing | None:
    return next((packing for packing in _PACKINGS if packing.start.match(head)), None)


def _unmarked_utf16(head: bytes) -> str | None:
    """The name of the encoding if every second byte of the head, or nearly so, is a NUL, and no other."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) < 0.3 * len(head) / 2 or min(even, odd) > 0:
        return None
    return "UTF-16LE" if odd else "UTF-16BE" if even else None


class _Pieces(io.RawIOBase):
    """A stream of pieces of bytes. It has the descriptor of its origin: `select` tells whether more can be read."""

    def __init__(self, pieces: Iterator[bytes], origin: Stream) -> None:
        super().__init__()
        self._pieces, self._origin, self._piece = pieces, origin, b""
        self.count = 0  # bytes that were read

    def buffered(self) -> io.BufferedReader:
        return io.BufferedReader(self, _PIECE)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._origin.fileno()

    def readinto(self, buffer: Any) -> int:
        piece = self._piece or next(self._pieces, b"")
        content, self._piece = piece[: len(buffer)], piece[len(buffer) :]
        buffer[: len(content)] = content
        self.count += len(content)
        return len(content)


def _from_utf16(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 with its byte order mark, as UTF-8. Damage becomes half a surrogate pair, which is not."""
    try:
        text = codecs.iterdecode(pieces, "utf-16", "surrogatepass")
        yield from codecs.iterencode(text, "utf-8", "surrogatepass")
    except UnicodeDecodeError:  # an odd number of bytes
        yield "\ud800".encode("utf-8", "surrogatepass")


def _unpacked(stream: io.BufferedReader, name: str, packing: _Packing) -> io.BufferedReader:
    packed = _Pieces(iter(lambda: stream.read1(_PIECE), b""), stream)
    try:
        content = packing.unpack(packed.buffered())
    except ModuleNotFoundError as error:
        remedy = "pip install 'seq2seq_attn[zstd]'" if packing.name == "zstd" else "install another build of Python"
        raise UserError(
            f"{name}: compressed with {packing.name}, which needs the module {error.name}; decompress it "
            f"({packing.command}), or {remedy}"
        ) from None
    return _Pieces(_within_limits(content, packed, name, packing), stream).buffered()


def _within_limits(content: Any, packed: _Pieces, name: str, packing: _Packing) -> Iterator[bytes]:
    """The content of a file. UserError if it is damaged, or expands beyond the limits."""
    given, count, piece = _given_limit(), 0, b"any"
    while piece:
        try:
            piece = content.read1(_PIECE)
        except (UserError, MemoryError):
            raise
        except Exception as error:  # each library has its own
            if isinstance(error, OSError) and error.errno is not None:  # of the file, not of what is in it
                raise
            raise UserError(
                f"{name}: incomplete or corrupt {packing.name} file ({error}); download or copy it again"
            ) from None
        count += len(piece)
        limit = given or min(SIZE, max(FREE, RATIO * packed.count))
        if count > limit:
            raise UserError(
                f"{name}: decompresses to more than {limit:,} bytes, unlike text of this compressed size; "
                f"if the file is to be read all the same, set {VARIABLE} to the bytes to allow"
            )
        yield piece


def _given_limit() -> int | None:
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UserError(f"{VARIABLE}={text[:40]!r} in the environment: a number of bytes is wanted, or nothing")
    return int(text) if text else None
