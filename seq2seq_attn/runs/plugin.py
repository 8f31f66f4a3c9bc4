"""A user's own scorers, from a Python file."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from seq2seq_attn.attention import Normaliser, Scorer, Window
from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import Tagged

_loaded: list[Path] = []  # beside the registries of scorers and normalisers, which these files have filled


def loaded_plugins() -> tuple[Path, ...]:
    """The files loaded so far, for a process that is to know the same classes."""
    return tuple(_loaded)


def load_plugins(paths: Iterable[Path] | None) -> None:
    """Import each file, so that the `Scorer` and `Normaliser` classes in it can be named in a config.

    UserError: a file is missing, fails to import (with the line), or defines no such class.
    """
    for path in paths or ():
        load_plugin(path)


def load_plugin(path: Path) -> ModuleType:
    """Import one file, and give it; see `load_plugins`."""
    name = f"plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{path}: no such Python file; --plugin takes one that defines a subclass of Scorer")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path}{_line(error, spec.origin)}: {type(error).__name__}: {error}") from error
    _loaded.append(path)
    own = [part for part in vars(module).values() if isinstance(part, type) and part.__module__ == name]
    if not any(issubclass(part, (Scorer, Normaliser, Window, Tagged)) and not inspect.isabstract(part) for part in own):
        raise UserError(f"{path}: defines no scorer; write a class that has Scorer as its base, and its methods")
    return module


def _line(error: Exception, file: str | None) -> str:
    """`, line 3` where the file went wrong."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""
