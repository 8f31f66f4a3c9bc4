"""Scorers, front ends and other parts, and metrics, in a user's own Python files: loaded, and copied into the run.

A configuration names such a class by its location, `my_file.py:MyScorer`, or a kind in a file that `--plugin` loaded,
which is written as its location. A run keeps the file, and the modules that it
imports from the same folder, in `plugins/`, and its config.yaml names the copies: the run can be moved, and the
original may change. Loading such a run executes these files, so only load runs that you trust. The checksums in
the run's `SHA256SUMS` detect damage and edits; they are not a signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from seq2seq_attn.attention import Normalizer, Scorer, Window, scorer_class
from seq2seq_attn.attention.registry import list_file
from seq2seq_attn.attention.user_code import file_sources, place_and_class
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked, read_sums
from seq2seq_attn.files.nested import mapped
from seq2seq_attn.strict import Strict
from seq2seq_attn.strict.tagged import Tagged

FOLDER = "plugins"

_loaded: list[Path] = []  # files given with --plugin so far, whose classes are in the registries of `attention`


def loaded_plugins() -> tuple[Path, ...]:
    """The files loaded so far by `load_plugins`, for a new process that needs the same names."""
    return tuple(_loaded)


def load_plugins(paths: Iterable[Path] | None) -> None:
    """Imports each file, so that a configuration can name the scorers, normalizers and windows in it.

    UserError: a file is missing, fails to import (with the line), or defines no such class.
    """
    for path in paths or ():
        try:
            module = list_file(path)
            own = [part for part in vars(module).values() if isinstance(part, type) and not inspect.isabstract(part)]
            own = [part for part in own if part.__module__ == module.__name__]
            for part in own:
                if issubclass(part, Tagged):
                    part.enter()  # it was named by its path until now
        except (ValueError, TypeError) as error:
            raise UserError(str(error)) from error
        if not any(issubclass(part, (Scorer, Normalizer, Window, Tagged)) for part in own):
            raise UserError(f"{path}: defines no scorer; write a subclass of Scorer with its methods")
        _loaded.append(path)


def find_scorer(name: str) -> type[Scorer]:
    """The scorer class named `additive`, `my_scorer.py:MyScorer` or `package.module:MyScorer`.

    UserError: there is no such class, its module cannot be imported, or it is not a scorer.
    """
    try:
        return scorer_class(name)
    except ValueError as error:
        raise UserError(str(error)) from error


def run_values(config: Strict) -> dict[str, Any]:
    """The values of a configuration as in the config.yaml of its run, where files are in the run's `plugins/`."""
    return _with_places(config.model_dump(mode="json"), lambda file, part: f"{FOLDER}/{Path(file).name}:{part}")


def class_files(config: Strict) -> dict[Path, bytes]:
    """The files whose classes the configuration names, and the modules that they import from their folders.

    UserError: a file is missing, or imports a package from its folder.
    """
    found: dict[Path, bytes] = {}

    def add(file: str, part: str) -> str:
        try:
            found.update({Path(file).parent / name: source for name, source in file_sources(Path(file)).items()})
        except ValueError as error:
            raise UserError(str(error)) from error
        return f"{file}:{part}"

    _with_places(config.model_dump(mode="json"), add)
    return found


def run_files(config: Strict) -> dict[str, bytes]:
    """The files that the run of this configuration keeps in `plugins/`, by their names there.

    UserError: two different files have the same name, or as in `class_files`.
    """
    kept: dict[str, bytes] = {}
    for path, source in class_files(config).items():
        if kept.setdefault(path.name, source) != source:
            raise UserError(f"{path}: another file of this name belongs to the same run; rename one of them")
    return kept


def read_run_values(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The values of a run's config.yaml, with the locations of its own files.

    UserError: a file is missing, or is not the one that the run was trained with.
    """
    for name in read_sums(folder):
        if name.startswith(f"{FOLDER}/"):
            checked(folder, name)

    def found(file: str, part: str) -> str:
        own = folder / file
        if Path(file).parent == Path(FOLDER):
            if not own.is_file():
                raise UserError(f"{own}: no such file, but the run needs its {part}; put a copy of it there")
            file = str(own.absolute())
        return f"{file}:{part}"

    return _with_places(dict(values), found)


def _with_places(values: dict[str, Any], change: Callable[[str, str], str]) -> dict[str, Any]:
    """The values with every `file.py:Class` of the source, the model and the metrics replaced."""

    def changed(_: str, value: Any) -> Any:
        file, part = place_and_class(value) if isinstance(value, str) else ("", "")
        return change(file, part) if file.endswith(".py") else value

    sections = "source", "model", "search", "evaluation"
    return values | {key: mapped(values[key], changed) for key in sections if key in values}
