"""Parts that a configuration names: by a registered name, or by the file or module of a user's own class.

scorer: additive                        # of this package, or of an installed distribution
scorer: my_file.py:MyScorer             # of a Python file
scorer: my_package.my_module:MyScorer   # of a module that Python can import
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from seq2seq_attn.attention import user_code

Part = TypeVar("Part")

ENTRY_POINTS = "seq2seq_attn.parts"  # the group in which a distribution declares scorers, encoders and other parts


_registries: list[Registry[Any]] = []


class Registry(Generic[Part]):
    """The concrete subclasses of one base class, registered by the base's `__init_subclass__`.

    A class may be redefined in its own module (a reloaded file, a notebook cell run twice). The same name in another
    module is an error: which of the two a configuration means would depend on the order of imports. Classes in a file
    that is named by its path are looked up in that file and are not registered, unless the file is listed.
    """

    def __init__(self, kind: str, base: type) -> None:
        self._kind = kind  # "scorer", for messages
        self._base = base
        self._classes: dict[str, type[Part]] = {}
        self._by_path: dict[tuple[str, str], type[Part]] = {}  # by module and name
        _registries.append(self)

    def add(self, part: type[Part]) -> None:
        # Not a class statement: torch derives classes to record a graph or to parametrize a module, and calls the
        # metaclass for it.
        is_derived = part.__module__ == "abc"
        if inspect.isabstract(part) or is_derived:
            return
        name = _snake_case(part)
        if user_code.is_named_by_path(part.__module__):
            self._by_path[part.__module__, name] = part
            return
        known = self._classes.get(name)
        if known is not None and known.__module__ != part.__module__:
            raise ValueError(
                f"the {self._kind} {name!r} exists twice: {known.__module__}.{known.__name__} and "
                f"{part.__module__}.{part.__name__}; rename one of the classes"
            )
        self._classes[name] = part

    def list_module(self, module: str) -> None:
        """Registers the classes of a file that was named by its path until now."""
        for part in [each for each in self._by_path.values() if each.__module__ == module]:
            self.add(part)

    def find(self, name: str) -> type[Part]:
        """The class that is named `additive`, `my_file.py:MyScorer` or `my_package.my_module:MyScorer`.

        ValueError in one line: there is no such name (the closest one is suggested), there is no such file or module,
        its import fails (with the line number), or it has no such class of this kind (the closest one is suggested).
        """
        place, class_name = user_code.place_and_class(name)
        if place:
            return cast("type[Part]", user_code.class_at(place, class_name, self._base))
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


def config_name(part: type) -> str:
    """The name of a class in a configuration: `scaled_dot` for `ScaledDot`, `FILE.py:CLASS` in a user's file."""
    if user_code.is_named_by_path(part.__module__):
        return f"{sys.modules[part.__module__].__file__}:{part.__qualname__}"
    return _snake_case(part)


def _snake_case(part: type) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part.__name__).lower()


def own_options(part: type) -> dict[str, Parameter]:
    """Returns the options of a scorer, normalizer, window or position.

    They are the parameters of its constructor except those that the model sets: `query_size` and `key_size`, or what
    the class names in `set_by_model`.

    Args:
        part: The class.

    Returns:
        The parameters by name, with evaluated types: `own_options(Additive)["hidden_size"].annotation` is `int | None`,
        not a string.

    Raises:
        ValueError: The name of a type is not defined in the module of the class.
    """
    try:
        parameters = inspect.signature(part, eval_str=True).parameters
    except NameError as error:
        raise ValueError(f"{part.__name__}: the type of an option cannot be evaluated: {error}") from error
    set_by_model = getattr(part, "set_by_model", ("query_size", "key_size"))
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name not in set_by_model and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }


def kept_arguments(part: object) -> str:
    """The arguments of its constructor that a part keeps under their names, for `extra_repr`: `temperature=2.0`."""
    kept = {name: getattr(part, name, None) for name in inspect.signature(type(part)).parameters}
    return ", ".join(f"{name}={value!r}" for name, value in kept.items() if isinstance(value, (int, float, str)))


def list_file(path: Path) -> ModuleType:
    """The module of a Python file, whose classes then have names like those of this package.

    ValueError in one line: as for `user_code.load_file`, or a name exists twice.
    """
    module = user_code.load_file(path, listed=True)
    for registry in _registries:
        registry.list_module(module.__name__)
    return module


def import_folder(package: str, folder: Iterable[str]) -> None:
    """Imports every module of a package, so that placing a file there suffices to register its classes."""
    for module in pkgutil.iter_modules(folder):
        importlib.import_module(f"{package}.{module.name}")


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
