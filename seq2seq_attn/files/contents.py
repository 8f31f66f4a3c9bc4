"""What a file is, by its first bytes and whatever its name: text, compressed text, or something that is not text.

`as_text` makes UTF-8 of whatever holds text: gzip, xz, bzip2 and zstd are decompressed, UTF-16 is decoded, and byte
order marks are removed. Anything else is refused by its name, with the way to make text of it: nothing is ever guessed.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.limits import Unpacked

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
    _foreign(rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP", "an image", "give its text, one sentence per line"),
    _foreign(rb"PAR1\x15|ARROW1\0|Obj\x01|ORC\x08", "a table of columns (Parquet, Arrow, Avro or ORC)", _EXPORT),
    _foreign(rb"SQLite format 3\0", "an SQLite database", _EXPORT),
    _foreign(rb"\x80[\x02-\x05]", "a Python pickle", _EXPORT),
    _foreign(rb"\x89HDF|\x93NUMPY", "arrays (HDF5 or NumPy)", _EXPORT),
    _foreign(rb".{7}\0\{\"", "safetensors", _MODEL),
    _foreign(rb"\x7fELF|MZ\x90\0", "a program", "give a text file"),
)

_UTF_8, _UTF_16 = codecs.BOM_UTF8, (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The bytes that begin any of the formats: text that begins with one of them is held back until its first line is
# complete, and other text not at all.
_FIRST = frozenset(b"\x1f\xfd\x28BPQRSTUVWXYZ[\\]^_\xff\xfe\xef7%{\xd0\x89GRAOS\x80\x93\x7fM\x04L")


def as_text(stream: Stream, name: str) -> io.BufferedReader:
    """The text of a binary stream as UTF-8, decompressed and without byte order mark. `name` is its name in messages.

    Reads no more of the stream than tells what it is: of text, at most its first line. UserError: it is known not to be
    text, or compressed twice, damaged, or of a format whose library is not installed.
    """
    return _as_text(stream, name, ())


def _as_text(stream: Stream, name: str, packed: tuple[str, ...]) -> io.BufferedReader:
    head = _head(stream)
    if (packing := _packing(head)) is not None:
        if packed:
            raise UserError(f"{name}: compressed twice, with {packed[0]} and {packing.name}; decompress it once")
        return _as_text(_unpacked(_Continued(head, stream), name, packing), name, (packing.name,))
    within = f", compressed with {packed[0]}" if packed else ""
    for kind in _FOREIGN:
        if kind.start.match(head):
            raise UserError(f"{name}: {kind.name}{within}, not text; {kind.way_out.format(name=name)}")
    if head.startswith(_UTF_16):
        return io.BufferedReader(_FromUtf16(_Continued(head, stream)), 1 << 16)
    if (order := _unmarked_utf16(head)) is not None:
        raise UserError(
            f"{name}: UTF-16 without the byte order mark that says so; convert it with: iconv -f {order} -t UTF-8"
        )
    return io.BufferedReader(_Continued(head.removeprefix(_UTF_8), stream), 1 << 16)


def unpacked(stream: Stream, name: str) -> io.BufferedReader:
    """The bytes of a stream, decompressed if it is compressed. UserError: it is damaged, or its library is missing."""
    head = _head(stream)
    packing = _packing(head)
    if packing is None:
        return io.BufferedReader(_Continued(head, stream), 1 << 17)
    return _unpacked(_Continued(head, stream), name, packing)


def without_packing(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def _head(stream: Stream) -> bytes:
    """The first `HEAD` bytes, or as many as tell that it is text."""
    head = b""
    while len(head) < HEAD and (not head or b"\0" in head or (head[0] in _FIRST and b"\n" not in head)):
        if len(head) > 3 and head.startswith(_UTF_16) and not _FOREIGN[0].start.match(head):  # its NULs tell nothing
            break
        piece = stream.read1(HEAD - len(head))  # type: ignore[union-attr]  # a BinaryIO that is read here has it
        if not piece:
            break
        head += piece
    return head


def _packing(head: bytes) -> _Packing | None:
    return next((packing for packing in _PACKINGS if packing.start.match(head)), None)


def _unmarked_utf16(head: bytes) -> str | None:
    """The name of the encoding if every second byte of the head, or nearly so, is a NUL, and no other."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) < 0.3 * len(head) / 2 or min(even, odd) > 0:
        return None
    return "UTF-16LE" if odd else "UTF-16BE" if even else None


def _unpacked(file: _Continued, name: str, packing: _Packing) -> io.BufferedReader:
    try:
        return io.BufferedReader(Unpacked(io.BufferedReader(file), name, packing.name, packing.unpack), 1 << 17)
    except ModuleNotFoundError as error:
        remedy = "pip install 'seq2seq_attn[zstd]'" if packing.name == "zstd" else "install another build of Python"
        raise UserError(
            f"{name}: compressed with {packing.name}, which needs the module {error.name}; decompress it "
            f"({packing.command}), or {remedy}"
        ) from None


class _Raw(io.RawIOBase):
    """A stream over another one, whose descriptor it has: `select` tells whether more can be read."""

    def __init__(self, stream: Stream | io.RawIOBase) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class _Continued(_Raw):
    """A stream of which the head has been read already."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        super().__init__(stream)
        self._head = head

    def readinto(self, buffer: Any) -> int:
        content = self._head[: len(buffer)] or self._stream.read1(len(buffer))  # type: ignore[union-attr]
        self._head = self._head[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


class _FromUtf16(_Raw):
    """A stream of UTF-16 with its byte order mark, as UTF-8. Damage becomes half a surrogate pair, which is not."""

    def __init__(self, stream: _Continued) -> None:
        super().__init__(stream)
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._ready, self._has_ended = b"", False

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._has_ended:
            piece = self._stream.read(len(buffer)) or b""
            self._has_ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._has_ended)
            except UnicodeDecodeError:  # an odd number of bytes
                text = "\ud800"
            self._ready = text.encode("utf-8", "surrogatepass")
        content, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)
