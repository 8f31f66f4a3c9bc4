"""The catalog of scorers, normalizers, windows and positions: equations, publications and options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from seq2seq_attn.api.tables import Listing, described
from seq2seq_attn.attention import (
    normalizer_classes,
    own_options,
    position_classes,
    registry,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.runs import Say, warn

if TYPE_CHECKING:
    from rich.console import RenderableType

Kind = Literal["scorer", "normalizer", "window", "position"]

_KINDS: tuple[Kind, ...] = ("scorer", "normalizer", "window", "position")

QUERY_SIZE, KEY_SIZE = 512, 1024


class Entry(NamedTuple):
    kind: Kind
    name: str  # in a configuration
    equation: str
    source: str  # paper and equation number
    options: dict[str, Any]  # with their defaults
    notes: tuple[str, ...]
    parameters: int | None  # at the given sizes; None: it cannot be constructed with them
    error: str | None  # why it cannot be constructed

    @property
    def settings(self) -> list[str]:
        """`name=default` for every option, as written in a configuration."""
        return [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in self.options.items()
        ]


def scorers(query_size: int = QUERY_SIZE, key_size: int = KEY_SIZE, *, say: Say = warn) -> Catalog:
    """All scorers, normalizers, windows and positions, with their parameters for these sizes.

    Those of other installed distributions are included.

    Args:
        query_size: Size of a query.
        key_size: Size of a key.
        say: Called with a line for each installed part that cannot be imported.

    >>> found = s2s.scorers(query_size=5, key_size=7)
    >>> general = next(entry for entry in found if entry.name == "general")
    >>> general.equation, general.parameters
    ('q · W k', 35)
    """
    for failure in registry.load_installed():
        say(f"not listed: {failure}")
    with torch.random.fork_rng(devices=[]):  # parameters are drawn, and counted
        entries = [
            *(_entry("scorer", each, query_size, key_size) for each in scorer_classes().values()),
            *(_entry("normalizer", each) for each in normalizer_classes().values()),
            *(_entry("window", each, query_size) for each in window_classes().values()),
            *(_entry("position", each, query_size, 1) for each in position_classes().values()),
        ]
    return Catalog(entries, query_size, key_size)


class Catalog(Listing[Entry]):
    """The result of `scorers`: the parts by kind, each kind in alphabetical order."""

    query_size: int
    key_size: int

    def __new__(cls, entries: Iterable[Entry], query_size: int, key_size: int) -> Catalog:
        self = super().__new__(cls, entries)
        self.query_size, self.key_size = query_size, key_size
        return self

    def of(self, kind: Kind) -> list[Entry]:
        """The entries of one kind: "scorer", "normalizer", "window" or "position"."""
        return [entry for entry in self if entry.kind == kind]

    def lines(self) -> dict[str, list[str]]:
        return {entry.name: _lines(entry) for entry in self}

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines = self.lines()
        tables = {kind: described({each.name: lines[each.name] for each in self.of(kind)}) for kind in _KINDS}
        return Group(*(part for kind, table in tables.items() for part in (Text(f"{kind.upper()}S"), table)))

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per part."""
        return [
            {
                "kind": entry.kind,
                "name": entry.name,
                "equation": entry.equation,
                "published in": entry.source,
                "options": ", ".join(entry.settings),
                "parameters": entry.parameters,
                "notes": "; ".join([*entry.notes, *([entry.error] if entry.error else [])]),
            }
            for entry in self
        ]

    def markdown(self) -> str:
        """The page docs/scorers.md, for these sizes."""
        tables = {f"{kind}s": _table(self.of(kind)) for kind in _KINDS}
        return _PAGE.format(query_size=self.query_size, key_size=self.key_size, **tables)


def _entry(kind: Kind, part: Any, *sizes: int) -> Entry:
    """The entry of a class, which is constructed with these sizes to count its parameters."""
    parameters, error, options = None, None, {}
    try:
        options = {name: parameter.default for name, parameter in own_options(part).items()}
        parameters = sum(parameter.numel() for parameter in part(*sizes).parameters())
    except (TypeError, ValueError) as failure:  # whose messages are about an argument
        error = " ".join(str(failure).split())
    except Exception as failure:  # user code may raise anything
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"
    return Entry(
        kind=kind,
        name=config_name(part),
        equation=part.equation,
        source=part.source,
        options={name: _plain(value) for name, value in options.items() if value is not Parameter.empty},
        notes=tuple(_notes(kind, part)),
        parameters=parameters,
        error=error,
    )


def _notes(kind: Kind, part: Any) -> Iterator[str]:
    """What the class declares."""
    if kind == "position":
        yield "acts within every self-attention" if part.in_attention else "added to the embeddings"
    if kind == "scorer" and part.needs_equal_sizes:
        yield "needs query_size == key_size"
    if kind == "normalizer" and not part.sums_to_one:
        yield "rows need not sum to 1"
    if kind in ("scorer", "normalizer") and part.needs_history:
        yield "depends on previous steps"
    if kind == "window" and part.needs_steps:
        yield "depends on the number of previous steps"


def _plain(value: Any) -> Any:
    """A default as a JSON value; a class becomes its name in a configuration."""
    if isinstance(value, type):
        return config_name(value)
    return value if value is None or isinstance(value, (bool, int, float, list, tuple)) else str(value)


def _lines(entry: Entry) -> list[str]:
    return [
        f"{entry.equation}   ({entry.source})",
        *([f"parameters: {entry.parameters:,}"] if entry.parameters is not None else []),
        *([entry.error] if entry.error else []),
        *([f"options: {', '.join(entry.settings)}"] if entry.settings else []),
        *([f"note: {', '.join(entry.notes)}"] if entry.notes else []),
    ]


_PAGE = """\
# Scorers, normalizers, windows and positions

Generated from the classes by

```sh
seq2seq-attn scorers --query-size {query_size} --key-size {key_size} --markdown
```

The name is the one used in a configuration. In the equations q is the query, k a key, e a score, a a weight, t or i a
step, s or j a position, S the number of tokens, σ the sigmoid, τ a temperature (in `sparsemax` and `entmax15` the
threshold for which the weights sum to 1) and D the `half_width`. Options are shown with their defaults. Parameters are
those for queries of size {query_size} and keys of size {key_size}. `my_file.py:MyClass` names a part of your own.

## Scorers

{scorers}

## Normalizers

A normalizer maps scores to weights. Padding gets a weight of exactly 0 from all of them.

{normalizers}

## Windows

A window restricts the source positions that a step may read, with any scorer and normalizer.

{windows}

## Positions

A position tells [self-attention](transformer.md) where its vectors x stand; without one, their order is not known.
Parameters are those for one head and vectors of the size of a query.

{positions}
"""


def _table(entries: Iterable[Entry]) -> str:
    from seq2seq_attn.report.table import markdown_table  # needs more than torch, which the rest of the file does not

    rows = []
    for entry in entries:
        settings = [f"`{setting}`" for setting in entry.settings]
        parameters = "–" if entry.parameters is None else f"{entry.parameters:,}"
        notes = "; ".join([*entry.notes, *settings, *([entry.error] if entry.error else [])])
        rows.append([f"`{entry.name}`", f"`{entry.equation}`", entry.source, parameters, notes])
    header = "name", "equation", "published in", "parameters", "notes"
    return markdown_table(header, rows, left=("equation", "published in", "notes"))
