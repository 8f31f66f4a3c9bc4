"""A made corpus on disk."""

from __future__ import annotations

import gzip
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.synthetic.phrase import Phrase
from seq2seq_attn.text.synthetic.split import Parts


def write(parts: Parts, sides: tuple[str, str], folder: Path) -> Path:
    """Write every part into the folder: all files beside it first, then each is moved to its place.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as unfinished:
            for name, pairs in parts._asdict().items():
                _write_part(pairs, sides, Path(unfinished, name), gzipped=name == "train")
            for file in sorted(Path(unfinished).iterdir()):
                os.replace(file, folder / file.name)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the corpus here: {error.strerror}; name another folder") from error
    return folder


def _write_part(pairs: Sequence[Phrase], sides: tuple[str, str], stem: Path, gzipped: bool) -> None:
    lines = {
        sides[0]: [" ".join(pair.source) for pair in pairs],
        sides[1]: [" ".join(pair.target) for pair in pairs],
        "align": [pair.pharaoh for pair in pairs],
    }
    for suffix, column in lines.items():
        data = "".join(f"{line}\n" for line in column).encode()
        name = f"{stem.name}.{suffix}.gz" if gzipped else f"{stem.name}.{suffix}"
        stem.with_name(name).write_bytes(_gzip(data) if gzipped else data)


def _gzip(data: bytes) -> bytes:
    """Compressed without the time of day; only the build of zlib can still change the bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()
