"""`scorers`: the available scorers, normalizers, windows and positions."""

from __future__ import annotations

from typing import Annotated

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, load_plugins
from seq2seq_attn.cli.console import answer, say
from seq2seq_attn.errors import UserError


def scorers(
    query_size: Annotated[int, typer.Option(min=1, help="Size of a decoder state.")] = 512,
    key_size: Annotated[int, typer.Option(min=1, help="Size of an encoder state, both directions together.")] = 1024,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/scorers.md.")] = False,
    plugin: Plugin = None,
) -> None:
    """List scorers, normalizers, windows and positions.

    Prints the name of each in a configuration, its equation, its publication, its options with their defaults, and its
    number of parameters at the given sizes.

    Examples:
        seq2seq-attn scorers
        seq2seq-attn scorers --query-size 256 --key-size 256 --plugin mine.py
    """
    if as_json and as_markdown:
        raise UserError("--json and --markdown are alternative formats; give one of them")
    load_plugins(plugin)
    found = s2s.scorers(query_size, key_size, say=say)
    if as_markdown:
        answer(found.markdown().rstrip())
    else:
        answer(list(found) if as_json else found)
