"""Write lists of recordings of spoken digits: each alone, and strings of 3 to 8 digits of one speaker.

    python experiments/spoken-digits/prepare.py  # after: seq2seq-attn data get speech-digits

The test set is the official one: recordings 0 to 4 of each speaker and digit. Recordings 5 to 7 are for validation, all
others for training; a string has recordings of its own part alone, with random pauses between. It is known which frames
each digit has (gold alignments).
"""

from __future__ import annotations

import argparse
import tarfile
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PARTS = {"test": range(5), "validation": range(5, 8), "train": range(8, 50)}  # by the index of a recording
STRINGS = {"test": 600, "validation": 300, "train": 9000}  # as many of each length
DIGITS = range(3, 9)  # of a string
RATE = 8000  # Hz
PAUSES = (400, 2400)  # samples between two digits: 50 to 300 ms
NOISE = 4.0  # standard deviation of a pause, of 16-bit samples
FRAME, SHIFT = 200, 80  # samples of a frame, and from one to the next: 25 and 10 ms
SEED = 11

Samples = NDArray[np.int16]


def main(arguments: list[str] | None = None) -> None:
    """The lists of both tasks, beside the recordings, and the sounds of the strings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/speech-digits"))
    folder = parser.parse_args(arguments).folder
    if not (folder / "recordings").exists():  # as in a clone of the repository of the recordings
        with tarfile.open(folder / "recordings.tar") as archive:
            # The argument `filter` is in the last releases of Python 3.10 and 3.11 alone.
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    recordings = sorted((folder / "recordings").glob("*.wav"))
    draw = np.random.default_rng(SEED)
    for part, indices in PARTS.items():
        own = [path for path in recordings if int(path.stem.split("_")[2]) in indices]
        write_lines(folder / f"single.{part}", [(str(path), WORDS[digit_of(path)], "") for path in own])
        sounds = folder / "strings" / part
        sounds.mkdir(parents=True, exist_ok=True)
        lines = list(strings(own, STRINGS[part], sounds, draw))
        write_lines(folder / f"strings.{part}", lines)
        print(f"{part}: {len(own)} recordings, {len(lines)} strings")


def digit_of(path: Path) -> int:
    """The digit that a recording is of, by its name: DIGIT_SPEAKER_INDEX.wav."""
    return int(path.stem.split("_")[0])


def strings(
    recordings: list[Path], count: int, folder: Path, draw: np.random.Generator
) -> Iterator[tuple[str, str, str]]:
    """The path, the words and the gold links of strings that are joined of these recordings."""
    by_speaker: dict[str, list[list[Path]]] = {}
    for path in recordings:
        by_speaker.setdefault(path.stem.split("_")[1], [[] for _ in WORDS])[digit_of(path)].append(path)
    for number in range(count):
        of_digits = by_speaker[sorted(by_speaker)[number % len(by_speaker)]]
        digits = draw.integers(len(WORDS), size=DIGITS[number // len(by_speaker) % len(DIGITS)])
        sound, spans = joined([of_digits[digit][draw.integers(len(of_digits[digit]))] for digit in digits], draw)
        path = folder / f"{number:04}.wav"
        write_sound(path, sound)
        yield str(path), " ".join(WORDS[digit] for digit in digits), links(spans, len(sound))


def joined(recordings: list[Path], draw: np.random.Generator) -> tuple[Samples, list[tuple[int, int]]]:
    """One sound of these recordings with pauses of faint noise between, and the first and last sample of each."""
    pieces: list[Samples] = []
    spans, end = [], 0
    for path in recordings:
        if pieces:
            pieces.append(draw.normal(0, NOISE, size=draw.integers(*PAUSES)).round().astype(np.int16))
            end += len(pieces[-1])
        pieces.append(read_sound(path))
        spans.append((end, end + len(pieces[-1])))
        end += len(pieces[-1])
    return np.concatenate(pieces), spans


def links(spans: list[tuple[int, int]], samples: int) -> str:
    """`IpJ` for every frame I whose middle is in digit J: any of them may be linked to it, none must be."""
    middles = np.arange(1 + (samples - FRAME) // SHIFT) * SHIFT + FRAME // 2
    within = ((middles >= first) & (middles < end) for first, end in spans)
    return " ".join(f"{frame}p{digit}" for digit, each in enumerate(within) for frame in np.flatnonzero(each))


def read_sound(path: Path) -> Samples:
    """The samples of a recording."""
    with wave.open(str(path)) as sound:
        if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (RATE, 1, 2):
            raise SystemExit(f"{path}: not 16-bit mono sound of {RATE} Hz")
        return np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2").astype(np.int16)


def write_sound(path: Path, samples: Samples) -> None:
    """Writes 16-bit mono sound."""
    with wave.open(str(path), "wb") as sound:
        sound.setframerate(RATE)
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.writeframes(samples.astype("<i2").tobytes())


def write_lines(stem: Path, lines: list[tuple[str, str, str]]) -> None:
    """Writes the files of one part: paths, words and links; single digits have no links."""
    for suffix, side in zip(("sounds", "words", "align"), zip(*lines, strict=True), strict=True):
        if any(side):
            stem.with_name(f"{stem.name}.{suffix}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")


if __name__ == "__main__":
    main()
