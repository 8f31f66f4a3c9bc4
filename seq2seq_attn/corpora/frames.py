"""Sources of frames: arrays of sensors, time series or poses; what is common to all recordings."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn.corpora.display import Display, picture_of
from seq2seq_attn.corpora.encoded import Items, padded
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig, Words, open_named, read_sample
from seq2seq_attn.corpora.source import Frames
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked

Recording = NDArray[np.float32]  # (L, F)
Statistics = NDArray[np.float64]  # (2, F): means, and standard deviations


class RecordingFrontEnd(FrontEnd):
    """A line is the path of a recording, each feature x of whose frames becomes (x - mean) / standard deviation.

    A feature that never changes becomes 0.

    Args:
        config: How recordings are read, and whose statistics normalize them.
        statistics: Those of training recordings; means of 0 and deviations of 1 unless these normalize.
    """

    def __init__(self, config: RecordingConfig, statistics: Statistics) -> None:
        self.config, self.statistics = config, statistics

    @property
    def size(self) -> int:
        return int(self.statistics.shape[1])

    def rules(self) -> Any:
        return type(self.config).__name__, self.config.rules(), self.statistics.tolist()

    def encode(self, line: str) -> Recording:
        frames = self.config.read(line)
        if frames.shape[1] != self.size:
            raise UserError(f"{line}: frames of {frames.shape[1]} features, and the model reads {self.size}")
        own = self.config.normalize == "recording"
        means, deviations = statistics_of([frames]) if own else self.statistics
        normalized: Recording = ((frames - means) / np.where(deviations > 0, deviations, 1)).astype(np.float32)
        return normalized

    def collate(self, items: Items) -> Frames:
        return Frames(*map(torch.from_numpy, padded(items)))

    def display(self, line: str) -> Display:
        return self.config.display(line, self.encode(line))

    def labels(self, line: str) -> list[str]:
        return self.config.labels(self.config.count(line))

    def word_indices(self, line: str) -> list[int]:
        return list(range(self.config.count(line)))

    def files(self, side: str) -> dict[str, bytes]:
        """`SIDE.statistics.npy`."""
        content = io.BytesIO()
        np.save(content, self.statistics)
        return {_file(side): content.getvalue()}


class RecordingConfig(FrontEndConfig):
    """What is common to the front ends of recordings; a kind defines how one is read."""

    makes: ClassVar[type] = Frames
    unit: ClassVar[str] = "frames"

    normalize: Literal["corpus", "recording", "none"] = "corpus"  # by statistics of training recordings, or its own

    @abstractmethod
    def read(self, line: str) -> Recording:
        """The frames (L, F) of the recording that a line names, with L of at least 1.

        Raises:
            UserError: It cannot be read; the message begins with the line.
        """

    @abstractmethod
    def count(self, line: str) -> int:
        """The number of frames that `read` returns, at less cost. Errors as there."""

    def labels(self, count: int) -> list[str]:
        """What to call this many frames: their numbers, from 1."""
        return [str(number) for number in range(1, count + 1)]

    def display(self, line: str, frames: Recording) -> Display:
        """What a recording looks and sounds like, given its normalized frames."""
        return Display(picture_of(frames))

    def rules(self) -> Any:
        """All that decides what `read` returns."""
        return self.model_dump()

    def words(self, lines: Iterable[str]) -> Words:
        return lambda line: self.labels(self.count(line))

    def build(self, lines: Sequence[str]) -> RecordingFrontEnd:
        recordings = self._recordings(lines)
        try:
            first = next(recordings)
        except StopIteration:
            raise UserError("no line names a recording, so there is nothing to learn from") from None
        if self.normalize == "corpus":
            return RecordingFrontEnd(self, statistics_of(chain([first], recordings)))
        return RecordingFrontEnd(self, np.repeat([[0.0], [1.0]], first.shape[1], axis=1))

    def _recordings(self, lines: Sequence[str]) -> Iterator[Recording]:
        """Those of `read_sample`. UserError with the line: one is unreadable, or has other features."""
        sizes = set()

        def read(line: str) -> Recording:
            frames = self.read(line)
            sizes.add(frames.shape[1])
            if len(sizes) > 1:
                raise UserError(f"{line}: frames of {frames.shape[1]} features; those before it have another number")
            return frames

        return read_sample(read, lines)

    def load(self, folder: Path, side: str) -> RecordingFrontEnd:
        path = checked(folder, _file(side))
        try:
            return RecordingFrontEnd(self, np.load(path))
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{path}: not the statistics of a run: {error}; restore the file") from None


def _file(side: str) -> str:
    return f"{side}.statistics.npy"


def statistics_of(recordings: Iterable[Recording]) -> Statistics:
    """The mean and the standard deviation of each feature over all frames, in one pass.

    Args:
        recordings: At least one, of the same number of features F.

    Returns:
        Both (2, F). The deviation of a feature that never changes is exactly 0.
    """
    origin = None
    for frames in recordings:
        if origin is None:
            origin = frames[0].astype(np.float64)  # large means would cancel in the difference of squares
            count, total, squares = 0, np.zeros_like(origin), np.zeros_like(origin)
        distances = frames - origin
        count, total, squares = count + len(frames), total + distances.sum(0), squares + np.square(distances).sum(0)
    assert origin is not None
    mean = total / count
    return np.stack([origin + mean, np.sqrt(np.maximum(squares / count - np.square(mean), 0))])


class FramesConfig(RecordingConfig):
    """`{kind: frames}`: a line is the path of an array (frames, features), as `numpy.save` writes it."""

    kind: Literal["frames"] = "frames"

    def read(self, line: str) -> Recording:
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            frames = _array(line).astype(np.float32)
        if not np.isfinite(frames).all():
            raise UserError(f"{line}: numbers that are not finite, or beyond float32; replace them")
        return frames

    def count(self, line: str) -> int:
        return len(_array(line))


def _array(line: str) -> NDArray[Any]:
    """The array in a file, memory-mapped. UserError: it is not one of frames."""
    with open_named(line):  # whose errors say what is wrong with a path
        try:
            array = np.load(line, mmap_mode="r")
        except (OSError, ValueError, EOFError):
            raise UserError(f"{line}: not an array as numpy.save writes it, or a damaged one") from None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{line}: several arrays; write one for each recording, with numpy.save")
    if array.dtype.kind not in "fiub" or array.ndim != 2 or 0 in array.shape:
        raise UserError(
            f"{line}: an array of shape {array.shape} and type {array.dtype}; a recording is one of numbers with shape "
            f"(frames, features), at least one of each"
        )
    return array
