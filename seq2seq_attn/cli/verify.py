"""`verify`: a run against what it recorded when it was trained."""

from __future__ import annotations

from typing import Annotated

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, RunFolder, load_plugins
from seq2seq_attn.cli.console import answer, answer_json, progress, say


def verify(
    run: RunFolder,
    score: Annotated[
        bool, typer.Option("--score", help="Translate and score the test set again, and compare the results.")
    ] = False,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Check a run against what it recorded when it was trained.

    Prints one line per item: ok, note (worth knowing) or wrong. Files, model, configuration and data must be those of
    the training; another version, other libraries or another device are noted. With --score, translations and scores
    must be equal as well, which is only to be expected with the same versions on the same device. Nothing is written.
    The exit code is 1 if anything is wrong.
    """
    load_plugins(plugin)
    with progress("test set") as advance:
        found = s2s.verify(run, score=score, progress=advance, say=say)
    if as_json:
        answer_json({"is_wrong": found.is_wrong, "items": [each._asdict() for each in found.items]})
    else:
        answer(str(found))
    if found.is_wrong:
        raise typer.Exit(1)
