"""`train`: a configuration in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2seq_attn.cli.console import answer, progress, say
from seq2seq_attn.cli.interruption import resumable
from seq2seq_attn.cli.options import Overrides, Plugin, argument, folder
from seq2seq_attn.cli.scores import answer_scores
from seq2seq_attn.errors import UserError


def train(
    config: Annotated[Path, argument("CONFIG", "The YAML file of a run.")],
    overrides: Overrides = None,
    output: Annotated[Path | None, folder("The run folder; runs/ and the name of CONFIG unless given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder's run.")] = False,
    plugin: Plugin = None,
) -> None:
    """Train one model, and score it.

    The weights that did best on the validation set are kept, and scored on the test set if the configuration has
    one. Ctrl-C keeps the last checkpoint, for --resume.
    """
    if resume and overwrite:
        raise UserError("--resume goes on with a run and --overwrite deletes it; give one of them")
    run = output or Path("runs") / config.stem
    with resumable(f"{run} keeps what was trained up to the last whole epoch", "--resume"):
        from seq2seq_attn.analysis.evaluate import evaluate
        from seq2seq_attn.config import Config, load
        from seq2seq_attn.runs.folder import IfExists, read_metrics
        from seq2seq_attn.runs.plugin import load_plugins
        from seq2seq_attn.runs.train import train as train_run

        load_plugins(plugin)
        settings = load(Config, config, overrides or ())
        if_exists: IfExists = "resume" if resume else "overwrite" if overwrite else "refuse"
        model = train_run(settings, run, name=run.name, if_exists=if_exists, say=say)
        trained = read_metrics(run)["training"]
        answer(
            f"best validation {settings.training.monitor} {trained['best']:.2f}, "
            f"{trained['epochs']} epochs, {trained['seconds']:.0f} s"
        )
        if settings.data.test is not None:
            with progress("test set") as advance:
                answer_scores(evaluate(model, run, advance, say))
    say(f"next: seq2seq-attn translate {run} FILE")
