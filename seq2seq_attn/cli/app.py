"""The program and its commands, in the order of its help.

A command imports what it needs in its body: importing torch takes seconds, and `--help` must return immediately.
"""

from __future__ import annotations

from typing import Annotated

import typer

import seq2seq_attn
from seq2seq_attn.cli import (
    align,
    check,
    data,
    evaluate,
    experiments,
    faithfulness,
    runs,
    scorers,
    serve,
    translate,
    walk,
)
from seq2seq_attn.cli.command import App
from seq2seq_attn.cli.console import answer

app = App(rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(requested: bool) -> None:
    if requested:
        answer(f"seq2seq-attn {seq2seq_attn.__version__}")
        raise typer.Exit


@app.callback()
def program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """RNN encoder-decoder with pluggable attention, and the ablation that shows what attention is for.

    Examples:
        seq2seq-attn demo
        seq2seq-attn train --help
    """
    if context.invoked_subcommand is None:
        answer(context.get_help())


app.command()(experiments.demo)
app.add_typer(data.app, name="data")
for _function in (
    experiments.train,
    translate.translate,
    evaluate.evaluate,
    runs.average,
    experiments.compare,
    experiments.report,
    align.align,
    runs.verify,
    align.score,
    faithfulness.faithfulness,
    runs.export,
    runs.push,
    serve.serve,
    scorers.scorers,
    walk.walk,
    check.check,
):
    app.command()(_function)
