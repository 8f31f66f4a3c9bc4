"""Corpora that the package makes itself, with gold word alignments: seeded, the same bytes on every machine.

A corpus is a folder with three files a part, one sentence a line: `train.en`, `train.zh` and `train.align` (Pharaoh
format, `i-j` for source word i and target word j, counted from 0), then `validation.*` and `test.*`. The training
files are gzipped.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.synthetic import tom_and_jerry, toys
from seq2seq_attn.text.synthetic.files import write
from seq2seq_attn.text.synthetic.phrase import Phrase
from seq2seq_attn.text.synthetic.split import Parts

__all__ = ["MADE", "SEED", "SIDES", "Parts", "Phrase", "make", "parts"]

SEED = 1940  # the year of the first cartoon


class Recipe(NamedTuple):
    """How a corpus is made."""

    description: str
    sides: tuple[str, str]  # how the names of its source and target files end
    parts: Callable[[Random], Parts]


_LETTERS = ("source", "target")
_RECIPES = {
    "tom-and-jerry": Recipe(
        "English to Chinese from a grammar, 1 to 50 words, gold alignments", ("en", "zh"), tom_and_jerry.parts
    ),
    "copy": Recipe("letters as they come", _LETTERS, partial(toys.parts, toys.copy)),
    "reverse": Recipe("letters from the last to the first", _LETTERS, partial(toys.parts, toys.reverse)),
    "sort": Recipe("letters in alphabetical order", _LETTERS, partial(toys.parts, toys.sort)),
}

MADE = {name: recipe.description for name, recipe in _RECIPES.items()}
SIDES = {name: recipe.sides for name, recipe in _RECIPES.items()}


def parts(name: str, seed: int = SEED) -> Parts:
    """The training, validation and test pairs of a corpus of `MADE`.

    Raises:
        UserError: no corpus of this name is made here.
    """
    return _recipe(name).parts(Random(seed))


def make(name: str, folder: str | Path, seed: int = SEED) -> Path:
    """Write a corpus of `MADE` into a folder, and return the folder; files of the same names are replaced.

    Raises:
        UserError: no corpus of this name is made here, or the folder cannot be written.
    """
    write(parts(name, seed), _recipe(name).sides, Path(folder))
    return Path(folder)


def _recipe(name: str) -> Recipe:
    if name not in _RECIPES:
        near = get_close_matches(name, _RECIPES, n=1) or list(_RECIPES)
        raise UserError(f"no corpus {name!r} is made here; try {' or '.join(near)}")
    return _RECIPES[name]
