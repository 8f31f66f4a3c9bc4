"""A source of images: a line is the path of a picture, and its positions are the columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.corpora.display import Display
from seq2seq_attn.corpora.encoded import Items, padded
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig, Words, open_named, read_sample
from seq2seq_attn.corpora.source import Pixels
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.files.json_files import STRICT, load_record
from seq2seq_attn.strict import Strict

MOST_PIXELS = 1 << 26  # of a picture, in its file and once it is scaled

Columns = NDArray[np.uint8]  # (width, height, channels): gray, or red, green and blue

Side = Annotated[int, Field(ge=1, le=4096)]  # pixels


class Normalization(Strict):
    """(value - mean) / std for each channel: one number of each for gray, three for color."""

    mean: tuple[float, ...]  # of each channel, for values from 0 to 1
    std: tuple[PositiveFloat, ...]  # standard deviation of each channel


_UNKNOWN = Normalization(mean=(), std=())  # where no value is read


@dataclass(frozen=True, config=STRICT)
class _Stored:
    """What `SIDE.normalization.json` holds."""

    mean: list[float]
    std: list[PositiveFloat]


_STORED = TypeAdapter(_Stored)


class ImageFrontEnd(FrontEnd):
    """Reads pictures as columns of pixels, scaled to one height; what is transparent becomes white.

    Args:
        height: Of every picture, in pixels.
        width: Of every picture; None: that which keeps its proportions.
        color: Whether pixels are red, green and blue, or else gray.
        normalization: Of the values that the model reads.
    """

    def __init__(self, height: int, width: int | None, color: bool, normalization: Normalization) -> None:
        self.height, self.width, self.color, self.normalization = height, width, color, normalization

    @property
    def size(self) -> tuple[int, int]:
        """The height and the channels."""
        return self.height, 3 if self.color else 1

    @property
    def size_in_words(self) -> str:
        width = "any width" if self.width is None else f"width {self.width}"
        return f"height {self.height}, {width}, {'color' if self.color else 'gray'}"

    def rules(self) -> Any:
        return self.height, self.width, self.color, self.normalization.mean, self.normalization.std

    def encode(self, line: str) -> Columns:
        return read_columns(line, self.height, self.width, self.color)

    def display(self, line: str) -> Display:
        picture = self.encode(line).swapaxes(0, 1)
        return Display(picture if self.color else picture[..., 0])

    def collate(self, items: Items) -> Pixels:
        columns, widths = padded(items)
        mean, std = (torch.tensor(each) for each in (self.normalization.mean, self.normalization.std))
        return Pixels((torch.from_numpy(columns) / 255 - mean) / std, torch.from_numpy(widths))

    def files(self, side: str) -> dict[str, bytes]:
        """The content of `SIDE.normalization.json`."""
        return {_file(side): self.normalization.model_dump_json(indent=2).encode() + b"\n"}


class ImageConfig(FrontEndConfig):
    """`{kind: image, height: 32}`: pictures that Pillow reads, such as PNG or JPEG, scaled to the height.

    Positions are columns: `data.max_length` must be as high as the widest picture, or its right side is cut off.
    """

    kind: Literal["image"] = "image"

    makes: ClassVar[type] = Pixels
    unit: ClassVar[str] = "columns"

    height: Side = 64  # pixels, to which every picture is scaled
    width: Side | None = None  # pixels, to which every picture is stretched; null: its proportions are kept
    color: bool = False  # red, green and blue; else gray
    normalization: Normalization | None = None  # null: learned, so that values have mean 0 and variance 1

    @model_validator(mode="after")
    def _normalizes_each_channel(self) -> ImageConfig:
        channels = 3 if self.color else 1
        given = self.normalization
        if given is not None and not len(given.mean) == len(given.std) == channels:
            raise ValueError(
                f"normalization: {len(given.mean)} means and {len(given.std)} standard deviations; give {channels} of "
                f"each with color={str(self.color).lower()}"
            )
        return self

    def words(self, lines: Iterable[str]) -> Words:
        return self._front_end(_UNKNOWN).words

    def build(self, lines: Sequence[str]) -> ImageFrontEnd:
        return self._front_end(self.normalization or self._learned(lines))

    def load(self, folder: Path, side: str) -> ImageFrontEnd:
        stored = load_record(_STORED, checked(folder, _file(side)), "restore it, or train the run again")
        return self._front_end(Normalization(mean=tuple(stored.mean), std=tuple(stored.std)))

    def _front_end(self, normalization: Normalization) -> ImageFrontEnd:
        return ImageFrontEnd(self.height, self.width, self.color, normalization)

    def _learned(self, lines: Sequence[str]) -> Normalization:
        """The mean and the standard deviation of each channel in these pictures, as `read_sample` takes them."""
        reader = self._front_end(_UNKNOWN)
        counts = np.zeros((reader.size[1], 256), dtype=np.int64)
        for columns in read_sample(reader.encode, lines):
            for channel, count in enumerate(counts):
                count += np.bincount(columns[..., channel].ravel(), minlength=256)
        if not counts.any():
            raise UserError("no line names a picture, so there is no normalization to learn; check the file")
        values, shares = np.arange(256) / 255, counts / counts.sum(axis=1, keepdims=True)
        mean = shares @ values
        std = np.sqrt((shares * (values - mean[:, None]) ** 2).sum(axis=1))
        std[std == 0] = 1  # pictures that are all of one color
        return Normalization(mean=tuple(mean.tolist()), std=tuple(std.tolist()))


def _file(side: str) -> str:
    return f"{side}.normalization.json"


def read_columns(path: str, height: int, width: int | None, color: bool) -> Columns:
    """The first picture of a file, upright, on white, scaled.

    Args:
        path: The file.
        height: Of the result, in pixels.
        width: Of the result; None: that which keeps the proportions.
        color: Whether the result has red, green and blue, or else gray.

    Raises:
        UserError: The file is missing, broken, truncated, no picture, or has too many pixels; with its path.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError  # here, because configurations import this file

    with open_named(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            image: Image.Image = Image.open(file)
            _check_pixels(path, *image.size)
            image = ImageOps.exif_transpose(image)
        except UnidentifiedImageError:
            raise UserError(f"{path}: no picture in a format that Pillow reads; convert it, as to PNG") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise _too_large(path) from None
        except UserError:
            raise
        except Exception as error:  # Pillow's decoders have no common one for broken files
            raise UserError(f"{path}: a broken or truncated picture ({error}); restore it") from None
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    if image.mode in ("I", "F"):
        raise UserError(f"{path}: numbers of 32 bits, of no known range, per pixel; save it with 8 or 16 bits")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    wide = width or max(1, round(image.width * height / image.height))
    _check_pixels(path, wide, height)
    image = image.convert("RGB" if color else "L").resize((wide, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, wide, -1).swapaxes(0, 1)


def _check_pixels(path: str, width: int, height: int) -> None:
    """UserError: a picture of this size has no pixel, or too many."""
    if not width * height:
        raise UserError(f"{path}: a picture of {width} x {height} pixels; there is nothing to read in it")
    if width * height > MOST_PIXELS:
        raise _too_large(path)


def _too_large(path: str) -> UserError:
    return UserError(f"{path}: more than {MOST_PIXELS:,} pixels, in the file or once it is scaled; make it smaller")
