"""Nested values, as those of a configuration: mappings and lists of leaves, whose keys are joined by dots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def leaves(values: Any, key: str = "", *, lists: bool = True) -> Iterator[tuple[str, Any]]:
    """Each leaf below `key`, with its key, as in `data.test.references.0`; without `lists`, a list is a leaf."""
    prefix = f"{key}." if key else ""
    if isinstance(values, Mapping):
        for name, each in values.items():
            yield from leaves(each, f"{prefix}{name}", lists=lists)
    elif lists and isinstance(values, (list, tuple)):
        for number, each in enumerate(values):
            yield from leaves(each, f"{prefix}{number}", lists=lists)
    else:
        yield key, values


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values by their keys, as in `training.optimizer.name`; a list is one value."""
    return dict(leaves(values, lists=False))


def mapped(values: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """The values with `change(key, leaf)` in place of each leaf; a tuple becomes a list."""
    prefix = f"{key}." if key else ""
    if isinstance(values, Mapping):
        return {name: mapped(each, change, f"{prefix}{name}") for name, each in values.items()}
    if isinstance(values, (list, tuple)):
        return [mapped(each, change, f"{prefix}{number}") for number, each in enumerate(values)]
    return change(key, values)
