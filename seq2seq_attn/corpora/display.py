"""What a source that is not text looks and sounds like, so that attention to it can be seen and heard."""

from __future__ import annotations

import io
import wave
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Display(NamedTuple):
    """A source as a picture, whose positions run from left to right, and, if it can be heard, as a sound.

    The S states of the source are the cells of a grid that lies evenly over the picture, row by row: one row of them
    unless the encoder says another number (`Encoder.rows`). The sound lasts as long as the picture is wide.
    """

    picture: NDArray[np.uint8]  # (height, width) gray, or (height, width, 3) red, green and blue
    sound: bytes | None = None  # a WAV file of 16 bits, as `wav_file` makes it

    @property
    def seconds(self) -> float | None:
        """How long the sound is."""
        if self.sound is None:
            return None
        with wave.open(io.BytesIO(self.sound)) as file:
            return float(file.getnframes() / file.getframerate())

    def first(self, share: float) -> Display:
        """The left part of the picture, this share of it, with the beginning of the sound that belongs to it."""
        picture = self.picture[:, : max(1, round(share * self.picture.shape[1]))]
        if self.sound is None:
            return Display(picture)
        with wave.open(io.BytesIO(self.sound)) as file:
            samples = np.frombuffer(file.readframes(round(share * file.getnframes())), "<i2")
            return Display(picture, wav_file(samples / 32767, file.getframerate()))


def picture_of(frames: NDArray[Any]) -> NDArray[np.uint8]:
    """Frames (L, F) as a gray picture (F, L): time to the right, the first feature at the bottom, large values dark.

    The darkest and the brightest hundredth of the values are black and white.
    """
    values = np.asarray(frames, dtype=np.float64)
    low, high = np.percentile(values, (1, 99))
    shares = np.clip((values - low) / ((high - low) or 1), 0, 1)
    picture: NDArray[np.uint8] = np.rint(255 * (1 - shares)).astype(np.uint8).T[::-1]
    return picture


def wav_file(samples: NDArray[Any], rate: int) -> bytes:
    """Samples (N,) between -1 and 1, `rate` of them a second, as a WAV file of one channel and 16 bits."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.rint(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return content.getvalue()
