"""Write the ten languages of SIGMORPHON 2020 task 1 as parallel text: the letters of a word, and its phones.

    python experiments/pronunciation-2020/prepare.py  # after: seq2seq-attn data get g2p-2020

A letter is a character of Unicode's canonical decomposition (NFD): a Korean syllable is the two or three letters that
it is written with, and an accent is a token of its own. Phones stay as they are.
"""

from __future__ import annotations

import argparse
import gzip
import unicodedata
from pathlib import Path

from seq2seq_attn.corpora.tokenizers import Character

PARTS = {"train": "train", "dev": "validation", "test": "test"}


def main(arguments: list[str] | None = None) -> None:
    """`LANGUAGE/PART.letters` and `LANGUAGE/PART.phones`, beside the files that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/g2p-2020"))
    folder = parser.parse_args(arguments).folder
    for path in sorted(folder.glob("*.tsv.gz")):
        language, _, part = path.name.removesuffix(".tsv.gz").partition("_")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            words, phones = zip(*(line.rstrip("\n").split("\t") for line in lines), strict=True)
        (folder / language).mkdir(exist_ok=True)
        for suffix, texts in (("letters", map(spaced, words)), ("phones", phones)):
            text = "".join(f"{line}\n" for line in texts)
            (folder / language / f"{PARTS[part]}.{suffix}").write_text(text, encoding="utf-8")


def spaced(word: str) -> str:
    """The letters of a word with blanks between, each a token."""
    return " ".join(Character().encode(unicodedata.normalize("NFD", word)))


if __name__ == "__main__":
    main()
