"""Classes of the user's own, in a Python file or in a module that Python can import."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


def place_and_class(name: str) -> tuple[str, str]:
    """`my_file.py` and `MyScorer` of `my_file.py:MyScorer`; the place of a registered name is empty."""
    place, _, class_name = name.rpartition(":")
    return place, class_name


def class_at(place: str, class_name: str, *bases: type) -> type:
    """The class in a Python file or module, which is derived from one of `bases`.

    ValueError in one line: there is no such file or module, its import fails (with the line number), or it has no such
    class (the closest one is suggested).
    """
    module = load_place(place)
    found = getattr(module, class_name, None)
    if isinstance(found, type) and issubclass(found, bases):
        return found
    classes = {key: each for key, each in vars(module).items() if isinstance(each, type) and each not in bases}
    own = [key for key, each in classes.items() if issubclass(each, bases) and not inspect.isabstract(each)]
    nearest = difflib.get_close_matches(class_name, own, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has: {', '.join(own) or 'none'}"
    wanted = " or ".join(base.__name__ for base in bases)
    raise ValueError(f"{place}: {class_name!r} is not a class derived from {wanted}; {hint}")


def load_place(place: str) -> ModuleType:
    """The module of a Python file, or of a name that Python can import; ValueError as for these."""
    return load_file(Path(place)) if place.endswith(".py") else load_module(place)


class _File(NamedTuple):
    """A Python file that was imported."""

    module: ModuleType
    sources: dict[Path, bytes]  # its own text and that of the modules beside it that it imports
    packages: list[str]  # packages that it imports from its folder


_PREFIX = "plugin_"  # of the names of modules that are named by their paths

_files: dict[Path, _File] = {}
_siblings: set[str] = set()  # names of the modules and packages that such files imported from their folders
_listed: set[str] = set()  # names of the modules whose classes have names of their own
_folder: Path | None = None  # that of the file which is being imported


def load_file(path: Path, listed: bool = False) -> ModuleType:
    """The module of a Python file; if `listed`, its classes are not known by its path, but by their own names.

    While the file is imported, modules in its folder can be imported by name; they do not shadow the standard library.
    A file is imported once per process, and again only if it has changed. ValueError in one line, with the line number
    in the file: it does not exist, or its import fails.
    """
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"{path}: no such Python file")
    place = path.resolve()
    # The name is the same in every process, so that classes can be pickled, and different for each file.
    name = f"{_PREFIX}{place.stem}_{hashlib.sha256(str(place).encode()).hexdigest()[:8]}"
    if listed:
        _listed.add(name)
    known = _files.get(place)
    if known is None or any(not each.is_file() or each.read_bytes() != text for each, text in known.sources.items()):
        known = _files[place] = _import(name, path, place)
    return known.module


def file_sources(path: Path) -> dict[str, bytes]:
    """The source code of the file and of the modules in its folder that it imports, by file name, as when imported.

    ValueError: it imports a package from its folder, which these files would not include; and as for `load_file`.
    """
    if path.resolve() not in _files:
        load_file(path)
    file = _files[path.resolve()]
    if file.packages:
        raise ValueError(
            f"{path}: imports the package {file.packages[0]!r} from its folder; only single modules can be saved "
            f"with it: install the package, or merge it into one file"
        )
    return {each.name: text for each, text in file.sources.items()}


def _import(name: str, path: Path, place: Path) -> _File:
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    file = _File(importlib.util.module_from_spec(spec), {place: place.read_bytes()}, [])
    before = sys.modules.get(name)
    try:
        with _importing_from(place.parent, file):
            sys.modules[name] = file.module
            spec.loader.exec_module(file.module)
    except (Exception, SystemExit) as error:  # whatever third-party code raises
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(f"{path}{_line(error, str(place))}: {reason}") from error
    return file


@contextmanager
def _importing_from(folder: Path, file: _File) -> Iterator[None]:
    """Lets the block import modules in a folder by name, and adds to `file` which these were.

    They are imported for this file alone: the siblings of another one may have the same names, and those that the
    program imported by itself have their places in `sys.modules` again after the block.
    """
    global _folder
    for name in _siblings:
        sys.modules.pop(name, None)
    _siblings.clear()
    own = {name: sys.modules.pop(name) for name in _modules_in(folder)}
    entry, around, writes_bytecode = str(folder), _folder, not sys.dont_write_bytecode
    installed = (index for index, each in enumerate(sys.path) if each.endswith("-packages"))
    sys.path.insert(next(installed, len(sys.path)), entry)  # after the standard library
    importlib.invalidate_caches()
    _folder, sys.dont_write_bytecode = folder, True  # the folder may be that of a run, which has no other files
    try:
        yield
    finally:
        _folder, sys.dont_write_bytecode = around, not writes_bytecode
        del sys.path[-1 - sys.path[::-1].index(entry)]
        siblings = _modules_in(folder)
        file.sources.update({each: each.read_bytes() for each in siblings.values()})
        packages = _packages_in(folder)
        file.packages.extend(packages)
        _siblings.update(siblings.keys() - own.keys())
        _siblings.update(name for name in sys.modules if name.partition(".")[0] in packages)
        sys.modules.update(own)


def _modules_in(folder: Path) -> dict[str, Path]:
    """The modules in `sys.modules` that are files in this folder, by the names that its files give them."""
    found = {path.stem: path for path in folder.glob("*.py") if path.stem in sys.modules}
    return {name: path for name, path in found.items() if _file_of(name) == path.resolve()}


def _packages_in(folder: Path) -> list[str]:
    """The packages in `sys.modules` that are in this folder, and that Python would not find without it."""
    loaded = [path for path in folder.iterdir() if path.name in sys.modules and path.is_dir()]
    here = [path for path in loaded if str(path) in map(str, getattr(sys.modules[path.name], "__path__", ()))]
    return [path.name for path in here if PathFinder.find_spec(path.name) is None]


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def is_named_by_path(module: str) -> bool:
    """Whether the classes of this module have no names of their own: it is such a file, or beside it."""
    if module.startswith(_PREFIX):
        return module not in _listed
    file = _file_of(module) if _folder or _files else None
    return file is not None and (file.parent == _folder or any(file in known.sources for known in _files.values()))


def file_of(part: type) -> Path | None:
    """The Python file, loaded by `load_file`, that defines a class; None if it is in no such file."""
    files = (path for path, file in _files.items() if file.module.__name__ == part.__module__)
    return next(files, None)


def _line(error: BaseException, file: str) -> str:
    """`, line 3` for an error in line 3 of the file."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""


def load_module(name: str) -> ModuleType:
    """The module of that name; ValueError in one line if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever third-party code raises
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(f"{name}: cannot be imported: {reason}; a file ends in .py") from error
