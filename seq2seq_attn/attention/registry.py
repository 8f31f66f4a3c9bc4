"""Parts that a configuration names: by a registered name, or by the file or module of a user's own class.

scorer: additive                        # of this package, or of an installed distribution
scorer: my_file.py:MyScorer             # of a Python file
scorer: my_package.my_module:MyScorer   # of a module that Python can import
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Generic, NamedTuple, TypeVar, cast

from torch import nn

Part = TypeVar("Part")
Value = TypeVar("Value")

ENTRY_POINTS = "seq2seq_attn.scorers"  # the group in which a distribution declares its scorers, normalizers, windows


class Registry(Generic[Part]):
    """The concrete subclasses of one base class, registered by the base's `__init_subclass__`.

    A class may be redefined in its own module (a reloaded file, a notebook cell run twice). The same name in another
    module is an error: which of the two a configuration means would depend on the order of imports. Classes in a file
    that is named by its path are looked up in that file and are not registered.
    """

    def __init__(self, kind: str, base: type) -> None:
        self._kind = kind  # "scorer", for messages
        self._base = base
        self._classes: dict[str, type[Part]] = {}

    def add(self, part: type[Part]) -> None:
        # Not a class statement: torch derives classes to record a graph or to parametrize a module, and calls the
        # metaclass for it.
        derived = part.__module__ == "abc"
        if inspect.isabstract(part) or derived:
            return
        if _is_named_by_its_file(part.__module__):
            _unlisted.setdefault(part.__module__, []).append(partial(self._enter, part))
        else:
            self._enter(part)

    def _enter(self, part: type[Part]) -> None:
        name = _snake_case(part)
        known = self._classes.get(name)
        if known is not None and known.__module__ != part.__module__:
            raise ValueError(
                f"the {self._kind} {name!r} exists twice: {known.__module__}.{known.__name__} and "
                f"{part.__module__}.{part.__name__}; rename one of the classes"
            )
        self._classes[name] = part

    def find(self, name: str) -> type[Part]:
        """The class called `additive`, `my_file.py:MyScorer` or `package.module:MyScorer`.

        ValueError in one line: there is no such name (the closest one is suggested), there is no such file or module,
        its import fails (with the line number), or it has no such class of this kind (the closest one is suggested).
        """
        place, class_name = place_and_class(name)
        if place:
            return cast("type[Part]", class_at(place, class_name, self._base))
        if name in self._classes:
            return self._classes[name]
        classes, failures = self.classes(), load_installed()
        if name in classes:
            return classes[name]
        nearest = difflib.get_close_matches(name, classes, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(classes)}"
        own = f"give one of your own as my_{self._kind}.py:My{self._base.__name__}"
        raise ValueError("; ".join([f"there is no {self._kind} {name!r}", hint, *failures, own]))

    def __iter__(self) -> Iterator[type[Part]]:
        """The classes imported so far."""
        return iter(self._classes.values())

    def classes(self) -> dict[str, type[Part]]:
        """All classes by configuration name, in alphabetical order, including those of installed distributions."""
        load_installed()
        return dict(sorted(self._classes.items()))


def place_and_class(name: str) -> tuple[str, str]:
    """`my_file.py` and `MyScorer` of `my_file.py:MyScorer`; the place of a registered name is empty."""
    place, _, class_name = name.rpartition(":")
    return place, class_name


def class_at(place: str, class_name: str, *bases: type) -> type:
    """The class in a Python file or module, which is derived from one of `bases`.

    ValueError in one line: there is no such file or module, its import fails (with the line number), or it has no such
    class (the closest one is suggested).
    """
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    found = getattr(module, class_name, None)
    if isinstance(found, type) and issubclass(found, bases):
        return found
    classes = {key: each for key, each in vars(module).items() if isinstance(each, type) and each not in bases}
    own = [key for key, each in classes.items() if issubclass(each, bases)]
    nearest = difflib.get_close_matches(class_name, own, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has: {', '.join(own) or 'none'}"
    wanted = " or ".join(base.__name__ for base in bases)
    raise ValueError(f"{place}: {class_name!r} is not a class derived from {wanted}; {hint}")


def config_name(part: type) -> str:
    """The name of a class in a configuration: `scaled_dot` for `ScaledDot`, `FILE.py:CLASS` in a user's file."""
    if part.__module__ in _unlisted:
        return f"{sys.modules[part.__module__].__file__}:{part.__qualname__}"
    return _snake_case(part)


def _snake_case(part: type) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part.__name__).lower()


_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def own_options(part: type) -> dict[str, Parameter]:
    """The options of a scorer, normalizer, window or position: their names, types and defaults.

    They are the parameters of its constructor except those that the model sets: `query_size` and `key_size`, or what
    the class names in `set_by_model`. Types are evaluated: `own_options(Additive)["hidden_size"].annotation` is
    `int | None`, not a string. ValueError: the name of a type is not defined in the module of the class.
    """
    try:
        parameters = inspect.signature(part, eval_str=True).parameters
    except NameError as error:
        raise ValueError(f"{part.__name__}: the type of an option cannot be evaluated: {error}") from error
    set_by_model = getattr(part, "set_by_model", ("query_size", "key_size"))
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name not in set_by_model and parameter.kind not in _VARIADIC
    }


def need_positive(part: nn.Module, **options: float) -> None:
    """ValueError that names the part, the option and its value if one of `options` is not above 0."""
    for option, value in options.items():
        if not value > 0:
            raise ValueError(f"{type(part).__name__} needs {option} > 0, got {value}")


def need_instance(owner: nn.Module, base: type[nn.Module], **arguments: object) -> None:
    """TypeError with the way out if one of `arguments` is not an instance of `base`, but a class or a name, say."""
    for argument, value in arguments.items():
        if isinstance(value, base):
            continue
        meant = value if isinstance(value, type) else _by_name(base, value)
        got = f"an instance of {type(value).__name__}"
        if isinstance(value, (type, str)):
            got = f"the class {value.__name__}" if isinstance(value, type) else f"the text {value!r}"
        hint = f"give an instance of a class derived from {base.__name__}"
        if meant is not None and issubclass(meant, base):
            parameters = inspect.signature(meant).parameters.values()
            own = [each for each in parameters if each.kind not in _VARIADIC]
            needed = [f"{each.name}=..." for each in own if each.default is Parameter.empty]
            hint = f"give an instance: {meant.__name__}({', '.join(needed)})"
        raise TypeError(
            f"{type(owner).__name__} needs {argument} to be an instance of {base.__name__}, got {got}; {hint}"
        )


def _by_name(base: type[nn.Module], name: object) -> type[nn.Module] | None:
    """The class below `base` with this name, in Python or in a configuration."""
    below = list(base.__subclasses__())
    for each in below:  # which grows, so that it becomes the whole tree
        below += each.__subclasses__()
    return next((each for each in below if name in (each.__name__, config_name(each))), None)


def import_folder(package: str, folder: Iterable[str]) -> None:
    """Imports every module of a package, so that placing a file there suffices to register its classes."""
    for module in pkgutil.iter_modules(folder):
        importlib.import_module(f"{package}.{module.name}")


class _File(NamedTuple):
    """A Python file that was imported."""

    module: ModuleType
    sources: dict[Path, bytes]  # its own text and that of the modules beside it that it imports
    packages: list[str]  # packages that it imports from its folder


_files: dict[Path, _File] = {}
_siblings: set[str] = set()  # names of the modules that such files imported from their folders
_unlisted: dict[str, list[Callable[[], None]]] = {}  # by module: callbacks that would register its classes
_folder: Path | None = None  # that of the file which is being imported


def load_file(path: Path, listed: bool = False) -> ModuleType:
    """The module of a Python file; `listed` registers its classes under their own names.

    While the file is imported, modules in its folder can be imported by name; they do not shadow the standard library.
    A file is imported once per process, and again only if it has changed. ValueError in one line, with the line number
    in the file: it does not exist, or its import fails.
    """
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"{path}: no such Python file")
    place = path.resolve()
    known = _files.get(place)
    if known is None or any(not each.is_file() or each.read_bytes() != text for each, text in known.sources.items()):
        listed = listed or (known is not None and known.module.__name__ not in _unlisted)
        known = _files[place] = _import(path, place, listed)
    if listed:
        for enter in _unlisted.pop(known.module.__name__, ()):
            enter()
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


def _import(path: Path, place: Path, listed: bool) -> _File:
    # The name is the same in every process, so that classes can be pickled, and different for each file.
    name = f"plugin_{place.stem}_{hashlib.sha256(str(place).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    file = _File(importlib.util.module_from_spec(spec), {place: place.read_bytes()}, [])
    before, waiting = sys.modules.get(name), _unlisted.pop(name, None)
    if not listed:
        _unlisted[name] = []
    try:
        with _importing_from(place.parent, file):
            sys.modules[name] = file.module
            spec.loader.exec_module(file.module)
    except (Exception, SystemExit) as error:  # whatever third-party code raises
        _restore(sys.modules, name, before)
        _restore(_unlisted, name, waiting)
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
        file.packages.extend(_packages_in(folder))
        _siblings.update(siblings.keys() - own.keys())
        sys.modules.update(own)


def _modules_in(folder: Path) -> dict[str, Path]:
    """The modules in `sys.modules` that are files in this folder, by the names that its files give them."""
    found = {path.stem: path for path in folder.glob("*.py") if path.stem in sys.modules}
    return {name: path for name, path in found.items() if _file_of(name) == path}


def _packages_in(folder: Path) -> list[str]:
    """The packages in `sys.modules` that are in this folder, and that Python would not find without it."""
    loaded = [path for path in folder.iterdir() if path.name in sys.modules and path.is_dir()]
    here = [path for path in loaded if str(path) in map(str, getattr(sys.modules[path.name], "__path__", ()))]
    return [path.name for path in here if PathFinder.find_spec(path.name) is None]


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _is_named_by_its_file(module: str) -> bool:
    """Whether the classes of this module are not registered: of a file that is named by its path, or beside one."""
    file = _file_of(module)
    is_sibling = file is not None and file.parent == _folder and not module.startswith("plugin_")
    return module in _unlisted or is_sibling


def _restore(table: dict[str, Value], name: str, value: Value | None) -> None:
    table.pop(name, None)
    if value is not None:
        table[name] = value


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


@cache
def load_installed() -> tuple[str, ...]:
    """Imports the entry points that installed distributions declare, once; returns a line for each one that fails.

    An entry point names a class, or a module whose classes are all registered when it is imported.
    """
    return tuple(failure for point in entry_points(group=ENTRY_POINTS) if (failure := _failure(point)))


def _failure(point: EntryPoint) -> str | None:
    """None, or why the entry point cannot be loaded."""
    try:
        point.load()
    except Exception as error:  # whatever third-party code raises
        origin = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return f"the entry point {point.name} = {point.value}{origin} cannot be loaded: {reason}"
    return None
