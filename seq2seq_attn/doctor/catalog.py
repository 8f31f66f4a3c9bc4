"""The catalog of scorers, normalizers, windows and positions: equations, publications, options and costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import torch
from torch import nn

from seq2seq_attn.api.tables import Listing, described
from seq2seq_attn.attention import (
    Normalizer,
    Position,
    Scorer,
    Window,
    normalizer_classes,
    own_options,
    position_classes,
    registry,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.registry import config_name
from seq2seq_attn.doctor.cost import Cost, measure_cost
from seq2seq_attn.doctor.subject import Kind
from seq2seq_attn.runs import Say, warn

if TYPE_CHECKING:
    from rich.console import RenderableType

Made = TypeVar("Made", bound=nn.Module)
ListedKind = Kind | Literal["position"]

_KINDS: tuple[ListedKind, ...] = ("scorer", "normalizer", "window", "position")

QUERY_SIZE, KEY_SIZE, POSITIONS = 512, 1024, 50


class Entry(NamedTuple):
    kind: ListedKind
    name: str  # in a configuration
    equation: str
    source: str  # paper and equation number
    options: dict[str, Any]  # with their defaults
    notes: tuple[str, ...]
    parameters: int | None  # at the given sizes; None: it cannot be constructed with them
    prepare: Cost | None  # of a scorer, per sentence; None: the scorer failed
    step: Cost | None  # of a scorer, per target word
    error: str | None  # why the scorer cannot be constructed or failed

    @property
    def settings(self) -> list[str]:
        """`name=default` for every option, as written in a configuration."""
        return [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in self.options.items()
        ]


def scorers(
    query_size: int = QUERY_SIZE, key_size: int = KEY_SIZE, positions: int = POSITIONS, *, say: Say = warn
) -> Catalog:
    """All scorers, normalizers, windows and positions, with the cost of scorers for a source of S `positions`.

    Those of other installed distributions are included; `say` is called with a line for each that cannot be imported.

    >>> found = s2s.scorers(query_size=5, key_size=7, positions=3)
    >>> general = next(entry for entry in found if entry.name == "general")
    >>> general.equation, general.parameters, general.step.flops
    ('q · W k', 35, 30)
    """
    for failure in registry.load_installed():
        say(f"not listed: {failure}")
    with torch.random.fork_rng(devices=[]):  # parameters are drawn, and counted
        entries = [
            *(_scorer(kind, query_size, key_size, positions) for kind in scorer_classes().values()),
            *(_normalizer(kind) for kind in normalizer_classes().values()),
            *(_window(kind, query_size) for kind in window_classes().values()),
            *(_position(kind, query_size) for kind in position_classes().values()),
        ]
    return Catalog(entries, query_size, key_size, positions)


class Catalog(Listing[Entry]):
    """The result of `scorers`: the parts by kind, each kind in alphabetical order."""

    def __init__(self, entries: Iterable[Entry], query_size: int, key_size: int, positions: int) -> None:
        super().__init__(entries)
        self.query_size, self.key_size, self.positions = query_size, key_size, positions

    def of(self, kind: ListedKind) -> list[Entry]:
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
        """One dictionary per part; the costs of a scorer are per target word (step) and per sentence (source)."""
        return [
            {
                "kind": entry.kind,
                "name": entry.name,
                "equation": entry.equation,
                "published in": entry.source,
                "options": ", ".join(entry.settings),
                "parameters": entry.parameters,
                **dict(zip(_COST, _cost(entry), strict=True)),
                "notes": "; ".join([*entry.notes, *([entry.error] if entry.error else [])]),
            }
            for entry in self
        ]

    def markdown(self) -> str:
        """The page docs/scorers.md, for these sizes."""
        return _PAGE.format(
            query_size=self.query_size,
            key_size=self.key_size,
            positions=self.positions,
            scorers=_table(
                [*_ABOUT, "parameters", *_COST, "notes"],
                (
                    [*_about(each), _number(each.parameters), *map(_number, _cost(each)), _notes(each)]
                    for each in self.of("scorer")
                ),
            ),
            normalizers=_table([*_ABOUT, "notes"], ([*_about(each), _notes(each)] for each in self.of("normalizer"))),
            windows=_table(
                [*_ABOUT, "parameters", "notes"],
                ([*_about(each), _number(each.parameters), _notes(each)] for each in self.of("window")),
            ),
            places=_table(
                [*_ABOUT, "parameters", "notes"],
                ([*_about(each), _number(each.parameters), _notes(each)] for each in self.of("position")),
            ),
        )


def _scorer(scorer: type[Scorer], query_size: int, key_size: int, positions: int) -> Entry:
    entry = _entry("scorer", scorer)._replace(notes=tuple(_notes_on_scorer(scorer)))
    entry, made = _constructed(entry, scorer, query_size, key_size)
    if made is None:
        return entry
    try:
        cost = measure_cost(made, positions)
    except Exception as error:  # user code may raise anything
        return entry._replace(error=f"failed: {type(error).__name__}: {' '.join(str(error).split())}")
    return entry._replace(prepare=cost.prepare, step=cost.step)


def _notes_on_scorer(scorer: type[Scorer]) -> Iterator[str]:
    if scorer.needs_equal_sizes:
        yield "needs query_size == key_size"
    if scorer.needs_history:
        yield "depends on previous steps"


def _normalizer(normalizer: type[Normalizer]) -> Entry:
    notes = [] if normalizer.sums_to_one else ["rows need not sum to 1"]
    if normalizer.needs_history:
        notes.append("depends on previous steps")
    return _entry("normalizer", normalizer)._replace(parameters=0, notes=tuple(notes))


def _window(window: type[Window], query_size: int) -> Entry:
    entry, made = _constructed(_entry("window", window), window, query_size)
    notes = ("depends on the number of previous steps",) if window.needs_steps else ()
    return entry if made is None else entry._replace(notes=notes)


def _position(position: type[Position], size: int) -> Entry:
    entry, made = _constructed(_entry("position", position), position, size, 1)
    notes = ("acts within every self-attention",) if position.in_attention else ("added to the embeddings",)
    return entry if made is None else entry._replace(notes=notes)


def _entry(kind: ListedKind, part: type[Scorer] | type[Normalizer] | type[Window] | type[Position]) -> Entry:
    """An entry with the information in the class itself."""
    error, defaults = None, {}
    try:
        defaults = {name: parameter.default for name, parameter in own_options(part).items()}
    except ValueError as failure:
        error = str(failure)
    return Entry(
        kind=kind,
        name=config_name(part),
        equation=part.equation,
        source=part.source,
        options={name: _plain(value) for name, value in defaults.items() if value is not Parameter.empty},
        notes=(),
        parameters=None,
        prepare=None,
        step=None,
        error=error,
    )


def _constructed(entry: Entry, make: Callable[..., Made], *sizes: int) -> tuple[Entry, Made | None]:
    """The entry with its number of parameters and the part, or with the reason why there is none and None."""
    try:
        made = make(*sizes)
    except Exception as error:  # user code may raise anything
        reason = " ".join(str(error).split())
        if not isinstance(error, (TypeError, ValueError)):  # whose messages are about an argument
            reason = f"{type(error).__name__}: {reason}"
        return entry._replace(error=entry.error or reason), None
    return entry._replace(parameters=sum(parameter.numel() for parameter in made.parameters())), made


def _plain(value: Any) -> Any:
    """A default as a JSON value; a class becomes its name in a configuration."""
    if isinstance(value, type):
        return config_name(value)
    return value if value is None or isinstance(value, (bool, int, float, list, tuple)) else str(value)


def _lines(entry: Entry) -> list[str]:
    return [
        f"{entry.equation}   ({entry.source})",
        *([f"parameters: {entry.parameters:,}"] if entry.parameters is not None else []),
        *([f"step: {_as_text(entry.step)}; source: {_as_text(entry.prepare)}"] if entry.step and entry.prepare else []),
        *([entry.error] if entry.error else []),
        *([f"options: {', '.join(entry.settings)}"] if entry.settings else []),
        *([f"note: {', '.join(entry.notes)}"] if entry.notes else []),
    ]


def _as_text(cost: Cost) -> str:
    return f"{cost.flops:,} FLOPs, {cost.bytes:,} bytes"


_PAGE = """\
# Scorers, normalizers, windows and positions

Generated from the classes by

```sh
seq2seq-attn scorers --query-size {query_size} --key-size {key_size} --positions {positions} --markdown
```

The name is the one used in a configuration. In the equations q is the query, k a key, e a score, a a weight, t or i a
step, s or j a position, S the number of tokens, σ the sigmoid, τ a temperature (in `sparsemax` and `entmax15` the
threshold for which the weights sum to 1) and D the `half_width`. Options are shown with their defaults.
`my_file.py:MyClass` names a part of your own.

## Scorers

For queries of size {query_size}, keys of size {key_size} and a source of {positions} positions. *Step* is the cost of
a scorer per target word, *source* the cost of its `prepare` per sentence. FLOPs and bytes (in float32, without fusion)
are counted during a run, by [`doctor/cost.py`](../seq2seq_attn/doctor/cost.py). Softmax and the weighted sum
are not included; they cost the same for every scorer.

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

{places}
"""

_ABOUT = ("name", "equation", "published in")
_COST = ("FLOPs, step", "bytes, step", "FLOPs, source", "bytes, source")
_NUMBERS = {"parameters", *_COST}


def _about(entry: Entry) -> list[str]:
    return [f"`{entry.name}`", f"`{entry.equation}`", entry.source]


def _cost(entry: Entry) -> list[int | None]:
    return [figure for cost in (entry.step, entry.prepare) for figure in (cost or (None, None))]


def _notes(entry: Entry) -> str:
    settings = [f"`{setting}`" for setting in entry.settings]
    return "; ".join([*entry.notes, *settings, *([entry.error] if entry.error else [])])


def _number(figure: int | None) -> str:
    return "–" if figure is None else f"{figure:,}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rules = ["---:" if name in _NUMBERS else "---" for name in header]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *escaped))
