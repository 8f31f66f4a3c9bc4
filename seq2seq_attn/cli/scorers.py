"""`scorers`: the available scorers, normalisers and windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.arguments import AsJson, Plugin
from seq2seq_attn.cli.console import answer, answer_entries, answer_json, say
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.doctor import Cost, Entry


def scorers(
    query_size: Annotated[int, typer.Option(min=1, help="Size of a decoder state.")] = 512,
    key_size: Annotated[int, typer.Option(min=1, help="Size of an encoder state, both directions together.")] = 1024,
    positions: Annotated[int, typer.Option(min=1, help="Length of the source, for the cost.")] = 50,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/scorers.md.")] = False,
    plugin: Plugin = None,
) -> None:
    """List scorers, normalisers and windows.

    Prints the name of each in a configuration, its equation, its publication, and its options with their defaults. For
    scorers, also prints the number of parameters at the given sizes and the cost in FLOPs and bytes per target word
    (step) and per sentence (source), counted during a run.
    """
    if as_json and as_markdown:
        raise UserError("--json and --markdown are alternative formats; give one of them")

    from seq2seq_attn.attention.registry import load_installed
    from seq2seq_attn.doctor import catalogue
    from seq2seq_attn.runs.plugin import load_plugins

    load_plugins(plugin)
    for failure in load_installed():
        say(f"not listed: {failure}")
    if as_markdown:
        answer(page(query_size, key_size, positions).rstrip())
        return
    entries = catalogue(query_size, key_size, positions)
    if as_json:
        answer_json([_record(entry) for entry in entries])
        return
    for kind in ("scorer", "normaliser", "window"):
        answer(f"{kind.upper()}S")
        answer_entries({entry.name: _lines(entry) for entry in entries if entry.kind == kind})


def _record(entry: Entry) -> dict[str, Any]:
    costs = {"prepare": entry.prepare, "step": entry.step}
    return entry._asdict() | {name: cost and cost._asdict() for name, cost in costs.items()}


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
# Scorers, normalisers and windows

Generated from the classes by

```sh
seq2seq-attn scorers --query-size {query_size} --key-size {key_size} --positions {positions} --markdown
```

The name is the one used in a configuration. In the equations q is the query, k a key, e a score, a a weight, t a step
and s a position. Options are shown with their defaults.

## Scorers

For queries of size {query_size}, keys of size {key_size} and a source of {positions} positions. *Step* is the cost of
a scorer per target word, *source* the cost of its `prepare` per sentence. FLOPs and bytes (in float32, without fusion)
are counted during a run, by [`doctor/catalogue.py`](../seq2seq_attn/doctor/catalogue.py). Softmax and the weighted sum
are not included; they cost the same for every scorer.

{scorers}

## Normalisers

A normaliser maps scores to weights. Padding gets a weight of exactly 0 from all of them.

{normalisers}

## Windows

A window restricts the source positions that a step may read, with any scorer and normaliser.

{windows}
"""

_ABOUT = ("name", "equation", "published in")
_COST = ("FLOPs, step", "bytes, step", "FLOPs, source", "bytes, source")
_NUMBERS = {"parameters", *_COST}


def page(query_size: int, key_size: int, positions: int) -> str:
    """docs/scorers.md: scorers with their cost at these sizes, normalisers and windows, one table each."""
    from seq2seq_attn.doctor import catalogue

    entries = catalogue(query_size, key_size, positions)
    scorers, normalisers, windows = (
        [entry for entry in entries if entry.kind == kind] for kind in ("scorer", "normaliser", "window")
    )
    return _PAGE.format(
        query_size=query_size,
        key_size=key_size,
        positions=positions,
        scorers=_table(
            [*_ABOUT, "parameters", *_COST, "notes"],
            ([*_about(each), _number(each.parameters), *_cost(each), _notes(each)] for each in scorers),
        ),
        normalisers=_table([*_ABOUT, "notes"], ([*_about(each), _notes(each)] for each in normalisers)),
        windows=_table(
            [*_ABOUT, "parameters", "notes"],
            ([*_about(each), _number(each.parameters), _notes(each)] for each in windows),
        ),
    )


def _about(entry: Entry) -> list[str]:
    return [f"`{entry.name}`", f"`{entry.equation}`", entry.source]


def _cost(entry: Entry) -> list[str]:
    return [_number(figure) for cost in (entry.step, entry.prepare) for figure in (cost or (None, None))]


def _notes(entry: Entry) -> str:
    settings = [f"`{setting}`" for setting in entry.settings]
    return "; ".join([*entry.notes, *settings, *([entry.error] if entry.error else [])])


def _number(figure: int | None) -> str:
    return "–" if figure is None else f"{figure:,}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rules = ["---:" if name in _NUMBERS else "---" for name in header]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *escaped))
