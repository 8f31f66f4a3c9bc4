"""A scorer class by what a user calls it: a name of the catalogue, or the place of a class of the user's own."""

from __future__ import annotations

import difflib
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

from seq2seq_attn.attention import Scorer, scorer_class
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.plugin import load_plugin


def find_scorer(name: str) -> type[Scorer]:
    """The class called `additive`, `my_scorer.py:MyScorer` or `package.module:MyScorer`.

    UserError: there is none, its module fails to be imported, or it is no scorer.
    """
    place, colon, wanted = name.rpartition(":")
    if not colon:
        try:
            return scorer_class(name)
        except ValueError as error:
            raise UserError(f"{error}; one of your own is given as my_scorer.py:MyScorer") from None
    module = _of_file(Path(place)) if place.endswith(".py") else _of_package(place)
    found = getattr(module, wanted, None)
    if not (isinstance(found, type) and issubclass(found, Scorer)):
        own = [each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, Scorer)]
        near = difflib.get_close_matches(wanted, own, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"its scorers: {', '.join(own) or 'none'}"
        raise UserError(f"{place}: {wanted!r} is no class with Scorer as its base; {hint}")
    return found


@cache  # a file that is run twice has two classes of each name, and pickle finds only one of them
def _of_file(path: Path) -> ModuleType:
    return load_plugin(path)


def _of_package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the code of others raises
        reason = " ".join(str(error).split())
        raise UserError(f"{name}: cannot be imported: {type(error).__name__}: {reason}; a file ends in .py") from error
