"""`bench`: speed of training and decoding."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from seq2seq_attn.cli.arguments import AsJson, argument, file, folder
from seq2seq_attn.cli.console import answer, answer_json, say
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.bench.measurements import Effort, Job, Sitting

Choice = TypeVar("Choice", bound=str)


def _names(help: str) -> Any:
    """An option that takes several names separated by commas, as in `greedy,beam`."""
    return typer.Option(metavar="NAMES", help=help)


def bench(
    corpus: Annotated[
        Path | None,
        argument("FOLDER", "With train.bpe.en, train.bpe.de, test.bpe.en, joint.vocab; default: a synthetic corpus."),
    ] = None,
    what: Annotated[
        str | None,
        _names(
            "Any of training; products and bytes, its lower bound; profile; greedy, beam, sentence-greedy, "
            "sentence-beam. Default: all; with --sweep training,products,bytes."
        ),
    ] = None,
    model: Annotated[
        str | None,
        _names("Any of additive, general, general-feed, distracted. Default: all; with --sweep additive."),
    ] = None,
    precision: Annotated[str, _names("Any of fp32, bf16.")] = "fp32,bf16",
    sweep: Annotated[
        str | None,
        _names("Any of length, batch, vocabulary, threads: vary these instead of measuring the common task."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all measurements.")] = 3,
    batches: Annotated[
        int, typer.Option(min=1, help="Timed batches per round; for single sentences, timed sentences.")
    ] = 30,
    warm_up: Annotated[int, typer.Option(min=0, help="Batches before the timed ones.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="Sentences per batch.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: one per core.")] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where our models run.")] = "cpu",
    peers: Annotated[
        Path | None,
        folder("Measure JoeyNMT and OpenNMT-py as well, in the folder that benchmarks/peers/setup.sh prepared."),
    ] = None,
    output: Annotated[Path | None, file("Write the measurements to this JSON file, after every round.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Measure nothing; show these measurements. Repeatable."),
    ] = None,
    page: Annotated[Path | None, file("With --from: write a Markdown page with plots.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of training and decoding.

    Every measurement runs in a process of its own, after a warm-up, and the systems take turns. Shown are the median
    over the rounds, the minimum and the maximum. The lower bound (products, bytes) is the least time that this machine
    needs for the matrix products of training and for its other memory traffic.
    """
    from seq2seq_attn.bench.measurements import AXES, PRECISIONS, WORKLOADS, Sitting

    if page is not None and not files:
        raise UserError("--page shows measurements from files: measure with --output FILE, then give --from FILE")
    if files:
        for path in files:
            _show(Sitting.load(path), as_json)
        if page is not None:
            from seq2seq_attn.bench.page import write_page

            say("\n".join(map(str, write_page(page, files))))
        return
    workloads = _named("--what", what or ("training,products,bytes" if sweep else ",".join(WORKLOADS)), WORKLOADS)
    precisions = _named("--precision", precision, PRECISIONS)
    axes = [] if sweep is None else _named("--sweep", sweep, AXES)

    from seq2seq_attn.bench.common_task import MODELS
    from seq2seq_attn.bench.sitting import (
        common_jobs,
        new_sitting,
        plan_tasks,
        run_rounds,
        sweep_jobs,
        unfused_models,
    )

    models = _named("--model", model or ("additive" if sweep else ",".join(MODELS)), tuple(MODELS))
    jobs: Sequence[Job] = common_jobs(workloads, models, precisions, threads or os.cpu_count() or 1, batch)
    if axes:
        jobs = [job for axis in axes for job in sweep_jobs(axis, jobs)]
    if peers is not None:
        _refuse_peers(peers, corpus, sweep, device)
    effort = _effort(peers / "data" if peers else corpus, device, warm_up, batches)
    tasks = list(plan_tasks(jobs, effort, peers))
    for line in unfused_models(jobs):
        say(line)
    keep = (lambda _: None) if output is None else (lambda sitting: sitting.save(output))
    sitting = run_rounds(new_sitting(jobs[0], effort), tasks, repeats, say, keep)
    _show(sitting, as_json)
    if len(sitting.figures) < len(tasks):
        raise typer.Exit(1)


def _named(option: str, text: str, known: Sequence[Choice]) -> list[Choice]:
    """The names in a comma-separated list, without repetitions; UserError for an unknown one."""
    found: dict[str, Choice] = {name: name for name in known}
    asked = dict.fromkeys(text.split(","))
    for name in asked:
        if name not in found:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes: {', '.join(known)}"
            raise UserError(f"{option} {text}: {name!r} is not known; {hint}")
    return [found[name] for name in asked]


def _effort(corpus: Path | None, device: Literal["cpu", "cuda"], warm_up: int, batches: int) -> Effort:
    import torch

    from seq2seq_attn.bench.measurements import Effort

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: this machine has no CUDA device; leave the option out")
    return Effort(warm_up, batches, device, corpus)


def _refuse_peers(peers: Path, corpus: Path | None, sweep: str | None, device: str) -> None:
    from seq2seq_attn.bench.sitting import refuse_without_peers

    if corpus is not None or sweep is not None or device != "cpu":
        raise UserError(
            f"--peers are measured on the common task, which is in {peers / 'data'}, and on the processor; "
            f"leave out FOLDER, --sweep and --device"
        )
    refuse_without_peers(peers)


def _show(sitting: Sitting, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        answer_json(asdict(sitting))
        return
    from rich.console import Console
    from rich.table import Table

    from seq2seq_attn.bench.tables import sitting_tables

    answer(f"{sitting.hardware}; {sitting.corpus}")
    console = Console() if Console().is_terminal else Console(width=200)  # a file has no width of its own
    for table in sitting_tables(sitting):
        shown = Table(title=table.title, title_justify="left", box=None)
        for index, name in enumerate(table.header):
            shown.add_column(name, justify="left" if index == 0 else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print()
        console.print(shown)
