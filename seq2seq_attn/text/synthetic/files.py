"""A made corpus on disk."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from pathlib import Path

from seq2seq_attn.text.files import write_bytes
from seq2seq_attn.text.synthetic.phrase import Phrase
from seq2seq_attn.text.synthetic.split import Parts


def write(parts: Parts, sides: tuple[str, str], folder: Path) -> None:
    """Write three files a part: both sides and the links, one pair a line; those of the training part gzipped.

    Raises:
        UserError: the folder cannot be written.
    """
    for part, pairs in parts._asdict().items():
        for side, content in zip((*sides, "align"), _columns(pairs), strict=True):
            if part == "train":
                write_bytes(folder / f"{part}.{side}.gz", _gzip(content))
            else:
                write_bytes(folder / f"{part}.{side}", content)


def _columns(pairs: Sequence[Phrase]) -> tuple[bytes, bytes, bytes]:
    """The content of the three files."""
    return (
        _lines([" ".join(pair.source) for pair in pairs]),
        _lines([" ".join(pair.target) for pair in pairs]),
        _lines([pair.pharaoh for pair in pairs]),
    )


def _lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _gzip(content: bytes) -> bytes:
    """Compressed without the time of day: only another build of zlib can change the bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()
