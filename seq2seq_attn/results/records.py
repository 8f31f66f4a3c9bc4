"""The files and folders of a comparison: its records as JSON, and the names of the folders of its runs."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from seq2seq_attn.files.json_files import load_record, save_record

T = TypeVar("T")

_DEVICE = re.compile("con|prn|aux|nul|(com|lpt)[0-9¹²³]")

RUNS = "runs"  # in the folder of a comparison
COMPARISONS = Path("comparisons")  # where comparisons are, unless another place is given


def slug(name: str) -> str:
    """A name for use in a path: `distracted (C at every step)` becomes `distracted-c-at-every-step`.

    Names that Windows keeps for devices, such as `con`, get a hyphen.
    """
    found = re.sub(r"[^\w]+", "-", name.lower()).strip("-")
    return f"{found}-" if _DEVICE.fullmatch(found) else found


def run_folder(arm: str, seed: int) -> Path:
    """The folder of a run, relative to `RUNS` in the folder of its comparison."""
    return Path(slug(arm)) / f"seed-{seed}"


def pack(content: bytes) -> str:
    """Bytes as text for a record: zlib-compressed, in base64."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def unpack(text: str) -> bytes:
    """The bytes. ValueError: the text is not from `pack`."""
    try:
        return zlib.decompress(base64.b64decode(text, validate=True))
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"what is packed cannot be decompressed: {error}") from None


class RecordFile(Generic[T]):
    """A JSON file in the folder of a comparison."""

    def __init__(self, name: str, kind: TypeAdapter[T]) -> None:
        self.name = name
        self._kind = kind

    def load(self, folder: Path) -> T:
        """UserError with the file and the key: it is missing or malformed."""
        return load_record(self._kind, folder / self.name)

    def find(self, folder: Path) -> T | None:
        """As `load`; None if there is no such file."""
        return self.load(folder) if (folder / self.name).exists() else None

    def save(self, record: T, folder: Path) -> None:
        """Writes it atomically, without fields that have their default."""
        save_record(self._kind, record, folder / self.name, exclude_defaults=True)
