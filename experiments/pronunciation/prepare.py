"""Write CMUdict as parallel text: the letters of a word, and the phones of its pronunciation.

    python experiments/pronunciation/prepare.py  # after: seq2seq-attn data get cmudict

The split is by word: a hash of the word decides, so that no pronunciation of a test word is seen in training. Phones
lose their stress (`AH0` becomes `AH`), as in the literature. Words with other characters than letters and apostrophes
are left out, most of them abbreviations (`a.d.`) and compounds (`on-line`).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seq2seq_attn.corpora.tokenizers import Character

TEST_WORDS, VALIDATION_WORDS = 12_000, 2_670
SEED = "cmudict-1"

Pronunciations = Mapping[str, Sequence[str]]  # each different, the most common one first


def main(arguments: list[str] | None = None) -> None:
    """The files of the three parts, beside the dictionary; what was left out is printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/cmudict"))
    folder = parser.parse_args(arguments).folder
    known = read_dictionary(folder / "cmudict.dict.gz")
    words = [word for word in known if re.fullmatch("[a-z']+", word)]
    print(f"{len(words):,} words; {len(known) - len(words):,} left out, with other characters than letters and '")
    for part, chosen in split(words).items():
        if part == "train":
            pairs = [(word, phones) for word in chosen for phones in known[word]]
            write(folder / f"{part}.letters", [spaced(word) for word, _ in pairs])
            write(folder / f"{part}.phones", [phones for _, phones in pairs])
            continue
        write(folder / f"{part}.letters", map(spaced, chosen))
        most = max(len(known[word]) for word in chosen) if part == "test" else 1
        for number in range(most):
            lines = [known[word][number] if number < len(known[word]) else "" for word in chosen]
            write(folder / f"{part}.phones{f'.{number + 1}' if number else ''}", lines)


def read_dictionary(path: Path) -> dict[str, list[str]]:
    """The pronunciations of each word, without stress, from lines such as `aalborg(2) AA1 L B AO0 R G # place`."""
    known: dict[str, list[str]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            word, *phones = line.partition(" #")[0].split()
            pronunciation = re.sub(r"\d", "", " ".join(phones))
            different = known.setdefault(re.sub(r"\(\d+\)$", "", word), [])
            if pronunciation not in different:
                different.append(pronunciation)
    return known


def split(words: Sequence[str]) -> dict[str, list[str]]:
    """The words of each part, in alphabetical order; the smallest hashes are the test set, the next the validation."""
    hashed = sorted(words, key=lambda word: hashlib.sha256(f"{SEED} {word}".encode()).digest())
    first, second = TEST_WORDS, TEST_WORDS + VALIDATION_WORDS
    parts = {"train": hashed[second:], "validation": hashed[first:second], "test": hashed[:first]}
    return {part: sorted(chosen) for part, chosen in parts.items()}


def spaced(word: str) -> str:
    """The letters of a word with blanks between, each a token."""
    return " ".join(Character().encode(word))


def write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
