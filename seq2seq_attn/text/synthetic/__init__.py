"""Generated corpora with gold word alignments: seeded, with the same bytes on every machine.

A corpus is a folder with three files per part, one sentence per line: `train.en`, `train.zh` and `train.align` (Pharaoh
format, `i-j` for source word i and target word j, counted from 0), then `validation.*` and `test.*`. The training
files are gzipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import write_new
from seq2seq_attn.text.synthetic import tom_and_jerry, toys
from seq2seq_attn.text.synthetic.grammar import Phrase, shuffled

__all__ = ["RECIPES", "SEED", "Parts", "Phrase", "Recipe", "Stratum", "generate_corpus", "make_corpus", "write_corpus"]

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
    """How a corpus is generated; `corpora.yaml` describes it to users."""

    sides: tuple[str, str]  # suffixes of its source and target files
    strata: Callable[[Random], list[Stratum]]


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
    "tom-and-jerry": Recipe(("en", "zh"), _by_length),
    "tom-and-jerry-short": Recipe(("en", "zh"), _short),
    "copy": Recipe(_LETTERS, partial(_toy, toys.copy)),
    "reverse": Recipe(_LETTERS, partial(_toy, toys.reverse)),
    "sort": Recipe(_LETTERS, partial(_toy, toys.sort)),
}


def make_corpus(name: str, folder: str | Path, seed: int = SEED) -> Path:
    """Generate a corpus of `RECIPES`, write it into a folder, and return the folder.

    Raises UserError if there is no such corpus, and as `write_corpus` does.
    """
    write_corpus(generate_corpus(name, seed), _recipe(name).sides, Path(folder))
    return Path(folder)


def generate_corpus(name: str, seed: int = SEED) -> Parts:
    """The pairs of a corpus of `RECIPES`: no source occurs twice, and each part is in random order.

    Raises UserError if there is no such corpus.
    """
    random = Random(seed)
    parts = Parts([], [], [])
    seen: set[tuple[str, ...]] = set()
    for pairs, *sizes in _recipe(name).strata(random):
        unseen = _unseen(pairs, seen)
        for part, size in zip(parts, sizes, strict=True):
            part += islice(unseen, size)
    return Parts(*(shuffled(random, part) for part in parts))


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        near = get_close_matches(name, RECIPES, n=1) or list(RECIPES)
        raise UserError(f"there is no generated corpus {name!r}; did you mean {' or '.join(near)}?")
    return RECIPES[name]


def _unseen(pairs: Iterator[Phrase], seen: set[tuple[str, ...]]) -> Iterator[Phrase]:
    for pair in pairs:
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair


def write_corpus(parts: Parts, sides: tuple[str, str], folder: Path) -> None:
    """Write three files per part: source, target and links, one pair per line; those of the training part gzipped.

    Raises UserError if the folder cannot be written, or, before anything is written, if it has a file of one of these
    names with another content.
    """
    contents: dict[Path, bytes] = {}
    for part, pairs in parts._asdict().items():
        columns = (
            [" ".join(pair.source) for pair in pairs],
            [" ".join(pair.target) for pair in pairs],
            [pair.pharaoh for pair in pairs],
        )
        for side, lines in zip((*sides, "align"), columns, strict=True):
            name = f"{part}.{side}.gz" if part == "train" else f"{part}.{side}"
            contents[folder / name] = "".join(f"{line}\n" for line in lines).encode()
    write_new(contents)
