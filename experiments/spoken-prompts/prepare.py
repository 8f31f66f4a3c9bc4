"""Write lists of the spoken prompts of Asterisk, a telephone exchange, and of the words that are said in them.

    python experiments/spoken-prompts/prepare.py  # after: seq2seq-attn data get asterisk-sounds

Both are taken out of Debian's packages. A prompt whose words are not known, or of more than eight seconds, is left out
and counted. Prompts are divided by their words, so that none is said in two parts, and single words are for training
alone.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import tarfile
import wave
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RECORDINGS = "asterisk-core-sounds-en-wav_1.6.1-1_all.deb"
TRANSCRIPTS = "asterisk-core-sounds-en_1.6.1-1_all.deb"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LONGEST = 8.0  # seconds
SHARES = {"test": 25, "validation": 12}  # % of the prompts of several words; the others are for training
SEED = 11


class Prompt(NamedTuple):
    """A recording, what is said in it, and for how many seconds."""

    sound: Path
    words: str
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    """The lists, beside the packages, and the recordings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/asterisk-sounds"))
    folder = parser.parse_args(arguments).folder
    transcripts = read_transcripts(folder / TRANSCRIPTS)
    left_out: Counter[str] = Counter()
    parts: dict[str, list[Prompt]] = {part: [] for part in ("train", "validation", "test")}
    for prompt in prompts(unpack(folder / RECORDINGS, folder / "sounds"), transcripts, left_out):
        parts[part_of(prompt.words)].append(prompt)
    trained = {word for prompt in parts["train"] for word in prompt.words.split()}
    for part, own in parts.items():
        for side, lines in (("sounds", [str(each.sound) for each in own]), ("words", [each.words for each in own])):
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = [word for each in own for word in each.words.split()]
        minutes = sum(each.seconds for each in own) / 60
        unheard = sum(word not in trained for word in words)
        print(f"{part}: {len(own)} prompts, {minutes:.1f} minutes, {len(words)} words, {unheard} not in training")
    print("left out: " + ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())))


def prompts(sounds: dict[str, Path], transcripts: dict[str, str], left_out: Counter[str]) -> Iterator[Prompt]:
    """The prompts that can be learned from; the others are counted by what they lack."""
    for name, path in sorted(sounds.items()):
        with wave.open(str(path)) as sound:
            seconds = sound.getnframes() / sound.getframerate()
        words = spoken(transcripts[name]) if name in transcripts else ""
        if not words:
            left_out["without words"] += 1
        elif not re.fullmatch("[a-z' ]+", words):
            left_out["with a number or sign"] += 1
        elif seconds > LONGEST:
            left_out[f"longer than {LONGEST:g} seconds"] += 1
        else:
            yield Prompt(path, words, seconds)


def spoken(transcript: str) -> str:
    """The words of a transcript in lower case, without punctuation and remarks, with single digits as words.

    It is not known how longer numbers and signs such as `*` are read, so they stay.
    """
    text = re.sub(r"\[.*?\]|\(.*?\)|<.*?>", " ", transcript.lower())
    text = re.sub(r"(?<![\d.])\d(?![\d.]*\d)", lambda digit: f" {DIGITS[int(digit[0])]} ", text)
    return " ".join(re.sub(r"[-.,:;!?\"]", " ", text).split())


def part_of(words: str) -> str:
    """The part of a prompt, the same for all prompts of these words."""
    place = int(hashlib.sha256(f"{SEED} {words}".encode()).hexdigest(), 16) % 100
    if " " not in words or place >= sum(SHARES.values()):
        return "train"
    return "test" if place < SHARES["test"] else "validation"


def read_transcripts(package: Path) -> dict[str, str]:
    """What is said, by the names of recordings, from the lines `NAME: TRANSCRIPT` of the package."""
    with unpacked(package) as archive:
        packed = next(each for each in archive if each.name.endswith("/core-sounds-en.txt.gz"))
        content = archive.extractfile(packed)
        assert content is not None
        lines = gzip.decompress(content.read()).decode("utf-8").splitlines()
    pairs = (line.partition(":") for line in lines if not line.startswith(";"))
    return {name.strip(): transcript.strip() for name, colon, transcript in pairs if colon}


def unpack(package: Path, folder: Path) -> dict[str, Path]:
    """Writes the recordings of the package below the folder; their paths by their names, as `digits/1`."""
    found = {}
    with unpacked(package) as archive:
        for member in archive:
            if member.name.endswith(".wav"):
                name = member.name.rpartition("/en_US_f_Allison/")[2]
                content = archive.extractfile(member)
                assert content is not None
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
                found[name.removesuffix(".wav")] = path
    return found


def unpacked(package: Path) -> tarfile.TarFile:
    """The files of a Debian package: its member `data.tar`, in an archive of the format of `ar`."""
    content = package.read_bytes()
    if not content.startswith(b"!<arch>\n"):
        raise SystemExit(f"{package}: not a Debian package")
    place = 8
    while place < len(content):
        name, size = content[place : place + 16].decode().strip(" /"), int(content[place + 48 : place + 58])
        place += 60
        if name.startswith("data.tar"):
            return tarfile.open(fileobj=io.BytesIO(content[place : place + size]))
        place += size + size % 2
    raise SystemExit(f"{package}: no data.tar in it")


if __name__ == "__main__":
    main()
