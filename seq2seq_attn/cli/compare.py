"""`compare`, `report` and `demo`: experiments as tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2seq_attn.cli.console import answer, say
from seq2seq_attn.cli.interruption import portable_command, resumable
from seq2seq_attn.cli.options import Overrides, Plugin, argument, folder

if TYPE_CHECKING:
    from seq2seq_attn.results.results import Results

RUNS = Path("runs")


def compare(
    experiment: Annotated[Path, argument("EXPERIMENT", "The YAML file of an experiment.")],
    overrides: Overrides = None,
    runs: Annotated[Path, folder("Run folders are DIR/EXPERIMENT/ARM/seed-N.")] = RUNS,
    output: Annotated[Path | None, folder("For the report; results/ beside EXPERIMENT unless given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at a time, which share the processor's cores.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train all runs anew.")] = False,
    plugin: Plugin = None,
) -> None:
    """Train the arms of an experiment, and compare them.

    Each arm is trained once a seed, unless it was before, and scored on the test set. Ctrl-C loses nothing: the
    same command goes on where it stopped. Overrides change the base of all arms, or the experiment itself, as in
    seeds=[1,2,3].
    """
    with resumable("finished runs are kept, and the others up to their last whole epoch"):
        from seq2seq_attn.comparison.compare import compare as compare_arms
        from seq2seq_attn.comparison.experiment import read_experiment
        from seq2seq_attn.runs.plugin import load_plugins

        load_plugins(plugin)
        grid = read_experiment(experiment, tuple(overrides or ()))
        shown = output or experiment.parent / "results"
        results = compare_arms(
            grid,
            runs,
            shown,
            if_exists="overwrite" if overwrite else "resume",
            jobs=jobs,
            command=portable_command(),
            say=say,
        )
        _show(results, shown)


def report(
    experiment: Annotated[
        Path,
        argument("EXPERIMENT", "Its YAML file, its folder, or the folder with the results.json that compare wrote."),
    ],
) -> None:
    """Make the report of an experiment again.

    Page, tables and pictures come from the JSON files of its results; no model is loaded. report.html is one file
    that needs no network.
    """
    from seq2seq_attn.report.write import RESULTS
    from seq2seq_attn.results.results import Results

    folder = experiment.parent if experiment.is_file() else experiment
    place = folder / "results" if (folder / "results" / RESULTS).exists() else folder
    _show(Results.load(place / RESULTS), place)


def demo(
    output: Annotated[
        Path | None, folder("For runs, table and pictures; runs/demo unless given, runs/demo-quick for --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Train for a moment only: a check that all works.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train all runs anew.")] = False,
) -> None:
    """See within minutes what attention is for.

    Four arms, of which one can look back at the source, learn to translate the embedded corpus from English to
    Chinese. Ctrl-C loses nothing: the same command goes on where it stopped.
    """
    with resumable("finished runs are kept, and the others up to their last whole epoch"):
        from seq2seq_attn.comparison.demo import demo as run_demo

        place = output or RUNS / ("demo-quick" if quick else "demo")
        _show(run_demo(place, quick, say, "overwrite" if overwrite else "resume", portable_command()), place)


def _show(results: Results, place: Path) -> None:
    """The table, what it says in words, and the files of the report, which are written first."""
    from rich.console import Console

    from seq2seq_attn.report.conclusion import conclusion
    from seq2seq_attn.report.table import terminal
    from seq2seq_attn.report.write import write_report

    written = write_report(place)
    console = Console() if Console().is_terminal else Console(width=120)  # a file has no width of its own
    console.print(terminal(results, console.width))
    answer("")
    for sentence in conclusion(results):
        answer(sentence)
    answer(f"\n{place}:")
    for path in written:
        answer(f"  {path.relative_to(place)}")
