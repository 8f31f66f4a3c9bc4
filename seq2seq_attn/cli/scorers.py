"""`scorers`: what attention can be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.console import answer, answer_entries, answer_json, say
from seq2seq_attn.cli.options import AsJson, Plugin
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.doctor import Cost, Entry


def scorers(
    query_size: Annotated[int, typer.Option(min=1, help="Numbers in a decoder state.")] = 512,
    key_size: Annotated[int, typer.Option(min=1, help="Numbers in an encoder state, both directions together.")] = 1024,
    positions: Annotated[int, typer.Option(min=1, help="Words of the source, for the cost.")] = 50,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Answer with the page docs/scorers.md.")] = False,
    plugin: Plugin = None,
) -> None:
    """List scorers, normalisers and windows.

    Each with its name in a configuration, its equation, where it was published, and its options with their defaults;
    scorers with their parameters at these sizes and what they cost: FLOPs and bytes for one target word (step) and for
    one sentence (source), counted while they run.
    """
    from seq2seq_attn.attention.registry import load_installed
    from seq2seq_attn.doctor import catalogue, page
    from seq2seq_attn.runs.plugin import load_plugins

    if as_json and as_markdown:
        raise UserError("--json and --markdown are two forms of one answer; give one of them")
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
        *([f"step: {_said(entry.step)}; source: {_said(entry.prepare)}"] if entry.step and entry.prepare else []),
        *([entry.error] if entry.error else []),
        *([f"options: {', '.join(entry.settings)}"] if entry.settings else []),
        *([f"note: {', '.join(entry.notes)}"] if entry.notes else []),
    ]


def _said(cost: Cost) -> str:
    return f"{cost.flops:,} FLOPs, {cost.bytes:,} bytes"
