"""A source that is not text, as a page shows it: a picture, and a sound unless it is long."""

from __future__ import annotations

import base64
import binascii
import io
import math
import wave

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat, PositiveInt, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.corpora.display import Display
from seq2seq_attn.files.json_files import STRICT
from seq2seq_attn.results.records import pack, unpack

LARGEST = (400, 1200)  # pixels (height, width) of a picture; a larger one is averaged
LONGEST = 2_000_000  # bytes of a sound; a minute of 16,000 samples a second


@dataclass(frozen=True, config=STRICT)
class SeenSource:
    """A picture whose positions run from left to right, and a sound that lasts as long as it is wide."""

    positions: PositiveInt  # of the source, which gold links count
    shape: tuple[PositiveInt, ...]  # (height, width) gray, or (height, width, 3) red, green and blue
    pixels: str  # 0 to 255, row by row, by `pack`
    seconds: PositiveFloat | None = None  # how long the sound is; None: there is none
    sound: str | None = None  # a WAV file in base64; None as well if it has more than LONGEST bytes

    @model_validator(mode="after")
    def _can_be_shown(self) -> SeenSource:
        if len(self.shape) not in (2, 3) or self.shape[2:] not in ((), (3,)):
            raise ValueError("shape is height and width, and 3 for a picture in colors")
        if len(content := unpack(self.pixels)) != math.prod(self.shape):
            raise ValueError(f"pixels contain {len(content)} numbers, but shape needs {math.prod(self.shape)}")
        if self.sound is not None and self.seconds != _seconds(self.sound):
            raise ValueError(f"sound lasts {_seconds(self.sound)} seconds, and seconds says {self.seconds}")
        return self

    @classmethod
    def of(cls, display: Display, positions: int) -> SeenSource:
        """The record of a source with this many positions."""
        picture, seconds, sound = _averaged(display.picture), display.seconds, display.sound
        if sound is not None and len(sound) > LONGEST:
            sound = None
        encoded = None if sound is None else base64.b64encode(sound).decode("ascii")
        return cls(positions, picture.shape, pack(picture.tobytes()), seconds, encoded)

    @property
    def picture(self) -> NDArray[np.uint8]:
        """The picture, of this shape."""
        return np.frombuffer(unpack(self.pixels), np.uint8).reshape(self.shape)

    @property
    def png(self) -> str:
        """The picture as a URL, `data:image/png;base64,...`."""
        from PIL import Image

        content = io.BytesIO()
        Image.fromarray(self.picture).save(content, "PNG")
        return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def _averaged(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture, no larger than LARGEST: each pixel is the mean of a block."""
    found = picture.astype(np.float64)
    for axis, most in enumerate(LARGEST):
        if (size := found.shape[axis]) > most:
            starts = np.arange(most) * size // most
            counts = np.diff([*starts, size]).reshape(-1, *[1] * (found.ndim - 1 - axis))
            found = np.add.reduceat(found, starts, axis=axis) / counts
    averaged: NDArray[np.uint8] = np.rint(found).astype(np.uint8)
    return averaged


def _seconds(sound: str) -> float:
    """How long a WAV file in base64 is. ValueError: it is none, or is not complete."""
    try:
        with wave.open(io.BytesIO(base64.b64decode(sound, validate=True))) as file:
            frames, size = file.getnframes(), file.getnchannels() * file.getsampwidth()
            if len(file.readframes(frames)) != frames * size:
                raise ValueError("sound is not complete")
            return float(frames / file.getframerate())
    except (binascii.Error, wave.Error, EOFError, ZeroDivisionError) as error:
        raise ValueError(f"sound is not a WAV file: {error}") from None
