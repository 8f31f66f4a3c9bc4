"""Generate a corpus with gold word alignments: seeded, with the same text on every machine.

    python data/make.py NAME [--output FOLDER] [--seed N]

With the default seed, these are the corpora of this folder, which the package contains. A corpus is a folder with three
files per part, one sentence per line: `train.en`, `train.zh` and `train.align` (Pharaoh format, `i-j` for source word i
and target word j, counted from 0), then `validation.*` and `test.*`. The training files are gzipped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from generator import tom_and_jerry, toys, word_list
from generator.grammar import Phrase, shuffled
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_new

SEED = 1940  # the year of the first cartoon


class Parts(NamedTuple):
    """The three parts of a corpus, which have no source sentence in common."""

    train: list[Phrase]
    validation: list[Phrase]
    test: list[Phrase]


class Stratum(NamedTuple):
    """An endless stream of pairs of one kind, and how many of them go to each part."""

    pairs: Iterator[Phrase]
    train: int
    validation: int
    test: int


class Recipe(NamedTuple):
    """How a corpus is generated; `corpora.yaml` of the package describes it to users."""

    sides: tuple[str, str]  # suffixes of its source and target files
    strata: Callable[[Random], list[Stratum]]
    glosses: bool = False  # whether `glosses.json` has an English gloss for each Chinese word


def _by_length(random: Random) -> list[Stratum]:
    return [
        Stratum(tom_and_jerry.pairs_of_length(random, band), band.train, tom_and_jerry.VALIDATION, tom_and_jerry.TEST)
        for band in tom_and_jerry.BANDS
    ]


def _short(random: Random) -> list[Stratum]:
    return [
        Stratum(tom_and_jerry.pairs_of_length(random, tom_and_jerry.BANDS[0]), toys.TRAIN, toys.VALIDATION, toys.TEST)
    ]


def _toy(task: toys.Permutation, random: Random) -> list[Stratum]:
    return [Stratum(toys.toy_pairs(task, random), toys.TRAIN, toys.VALIDATION, toys.TEST)]


_LETTERS = ("source", "target")

RECIPES = {
    "tom-and-jerry": Recipe(("en", "zh"), _by_length, glosses=True),
    "tom-and-jerry-short": Recipe(("en", "zh"), _short),
    "copy": Recipe(_LETTERS, partial(_toy, toys.copy)),
    "reverse": Recipe(_LETTERS, partial(_toy, toys.reverse)),
    "sort": Recipe(_LETTERS, partial(_toy, toys.sort)),
}


def generate(name: str, seed: int = SEED) -> Parts:
    """The pairs of a corpus of `RECIPES`: no source occurs twice, and each part is in random order."""
    random = Random(seed)
    parts = Parts([], [], [])
    seen: set[tuple[str, ...]] = set()
    for pairs, *sizes in RECIPES[name].strata(random):
        unseen = _unseen(pairs, seen)
        for part, size in zip(parts, sizes, strict=True):
            part += islice(unseen, size)
    return Parts(*(shuffled(random, part) for part in parts))


def _unseen(pairs: Iterator[Phrase], seen: set[tuple[str, ...]]) -> Iterator[Phrase]:
    for pair in pairs:
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair


def make(name: str, folder: Path, seed: int = SEED) -> None:
    """Writes a corpus of `RECIPES` into a folder.

    UserError: the folder cannot be written, or, before anything is written, it has a file of one of these names with
    another content.
    """
    recipe = RECIPES[name]
    contents: dict[Path, bytes] = {}
    for part, pairs in generate(name, seed)._asdict().items():
        columns = (
            [" ".join(pair.source) for pair in pairs],
            [" ".join(pair.target) for pair in pairs],
            [pair.pharaoh for pair in pairs],
        )
        for side, lines in zip((*recipe.sides, "align"), columns, strict=True):
            file = f"{part}.{side}.gz" if part == "train" else f"{part}.{side}"
            contents[folder / file] = "".join(f"{line}\n" for line in lines).encode()
    if recipe.glosses:
        text = json.dumps(word_list.glosses(), ensure_ascii=False, indent=0)
        contents[folder / "glosses.json"] = f"{text}\n".encode()
    write_new(contents)


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate a corpus with gold word alignments.")
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--output", type=Path, help="folder; default: data/NAME")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default: {SEED}, that of the corpora in the package")
    options = parser.parse_args()
    try:
        make(options.name, options.output or Path("data", options.name), options.seed)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
