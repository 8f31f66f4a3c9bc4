"""Scorers, normalisers and windows in a user's own Python files, and scorer classes by name."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from seq2seq_attn.attention import Normaliser, Scorer, Window, scorer_class
from seq2seq_attn.errors import UserError

_loaded: list[Path] = []  # files imported so far, whose classes are in the registries of `attention`


def loaded_plugins() -> tuple[Path, ...]:
    """The files imported so far, for a new process that needs the same classes."""
    return tuple(_loaded)


def load_plugins(paths: Iterable[Path] | None) -> None:
    """Imports each file, so that a configuration can name the scorers, normalisers and windows in it.

    UserError: a file is missing, fails to import (with the line), or defines no such class.
    """
    for path in paths or ():
        load_plugin(path)


def load_plugin(path: Path) -> ModuleType:
    """Imports one file and returns its module; errors as for `load_plugins`."""
    name = f"plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{path}: no such Python file; --plugin takes one that defines a subclass of Scorer")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path}{_failed_line(error, spec.origin)}: {type(error).__name__}: {error}") from error
    _loaded.append(path)
    own = [part for part in vars(module).values() if isinstance(part, type) and part.__module__ == name]
    if not any(issubclass(part, (Scorer, Normaliser, Window)) and not inspect.isabstract(part) for part in own):
        raise UserError(f"{path}: defines no scorer; write a class that has Scorer as its base, and its methods")
    return module


def _failed_line(error: Exception, file: str | None) -> str:
    """`, line 3`, the line of the file at which the import failed."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""


def find_scorer(name: str) -> type[Scorer]:
    """The scorer class named `additive`, `my_scorer.py:MyScorer` or `package.module:MyScorer`.

    UserError: there is no such class, its module cannot be imported, or it is not a scorer.
    """
    place, colon, wanted = name.rpartition(":")
    if not colon:
        try:
            return scorer_class(name)
        except ValueError as error:
            raise UserError(f"{error}; one of your own is given as my_scorer.py:MyScorer") from None
    module = _load_plugin_once(Path(place)) if place.endswith(".py") else _import_module(place)
    found = getattr(module, wanted, None)
    if not (isinstance(found, type) and issubclass(found, Scorer)):
        own = [each for each, value in vars(module).items() if isinstance(value, type) and issubclass(value, Scorer)]
        near = difflib.get_close_matches(wanted, own, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"its scorers: {', '.join(own) or 'none'}"
        raise UserError(f"{place}: {wanted!r} is no class with Scorer as its base; {hint}")
    return found


@cache  # importing a file twice creates each of its classes twice, and pickle finds only the second
def _load_plugin_once(path: Path) -> ModuleType:
    return load_plugin(path)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a user's module may raise anything
        reason = " ".join(str(error).split())
        raise UserError(f"{name}: cannot be imported: {type(error).__name__}: {reason}; a file ends in .py") from error
