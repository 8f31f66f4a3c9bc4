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
    from seq2seq_attn.speed.measurements import Effort, Job, Sitting

Choice = TypeVar("Choice", bound=str)


def _names(help: str) -> Any:
    """An option that takes several names separated by commas, as in `greedy,beam`."""
    return typer.Option(metavar="NAMES", help=help)


def bench(
    corpus: Annotated[
        Path | None,
        argument(
            "FOLDER",
            "A folder with train.bpe.en, train.bpe.de, test.bpe.en and joint.vocab; default: a synthetic corpus.",
        ),
    ] = None,
    what: Annotated[
        str | None,
        _names(
            "Any of training, products and bytes (the lower bound of training), profile, greedy, beam, "
            "sentence-greedy, sentence-beam. Default: all; with --sweep: training,products,bytes."
        ),
    ] = None,
    model: Annotated[
        str | None,
        _names("Any of additive, general, general-feed, distracted. Default: all; with --sweep: additive."),
    ] = None,
    precision: Annotated[str, _names("Any of fp32, bf16.")] = "fp32,bf16",
    sweep: Annotated[
        str | None,
        _names("Any of length, batch, vocabulary, threads: vary these instead of measuring the common task."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all measurements.")] = 3,
    batches: Annotated[
        int, typer.Option(min=1, help="Timed batches per round, or timed sentences when they are decoded singly.")
    ] = 30,
    warm_up: Annotated[int, typer.Option(min=0, help="Batches before the timed ones.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="Sentences per batch.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: one per core.")] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Device for the models of this package.")] = "cpu",
    peers: Annotated[
        Path | None,
        folder("Also measure JoeyNMT and OpenNMT-py, in the folder prepared by benchmarks/peers/setup.sh."),
    ] = None,
    output: Annotated[Path | None, file("Write the measurements to this JSON file, after every round.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Show these measurements instead of measuring. Repeatable."),
    ] = None,
    page: Annotated[Path | None, file("With --from: write a Markdown page with plots.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of training and decoding.

    Each measurement runs in its own process after a warm-up, and the systems take turns. Prints the median, minimum
    and maximum over the rounds. The lower bound (products, bytes) is the least time that this machine needs for the
    matrix products of training and for its other memory traffic.
    """
    from seq2seq_attn.speed.measurements import AXES, PRECISIONS, WORKLOADS, Sitting

    if page is not None and not files:
        raise UserError("--page needs measurements from files: measure with --output FILE, then give --from FILE")
    if files:
        for path in files:
            _show(Sitting.load(path), as_json)
        if page is not None:
            from seq2seq_attn.speed.page import write_page

            say("\n".join(map(str, write_page(page, files))))
        return
    workloads = _named("--what", what or ("training,products,bytes" if sweep else ",".join(WORKLOADS)), WORKLOADS)
    precisions = _named("--precision", precision, PRECISIONS)
    axes = [] if sweep is None else _named("--sweep", sweep, AXES)

    from seq2seq_attn.speed.common_task import MODELS
    from seq2seq_attn.speed.sitting import (
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
    """The names in a comma-separated list, without duplicates; UserError for an unknown one."""
    found: dict[str, Choice] = {name: name for name in known}
    requested = dict.fromkeys(text.split(","))
    for name in requested:
        if name not in found:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            raise UserError(f"{option} {text}: {name!r} is not known; {hint}")
    return [found[name] for name in requested]


def _effort(corpus: Path | None, device: Literal["cpu", "cuda"], warm_up: int, batches: int) -> Effort:
    import torch

    from seq2seq_attn.speed.measurements import Effort

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: this machine has no CUDA device; leave the option out")
    return Effort(warm_up, batches, device, corpus)


def _refuse_peers(peers: Path, corpus: Path | None, sweep: str | None, device: str) -> None:
    from seq2seq_attn.speed.sitting import refuse_without_peers

    if corpus is not None or sweep is not None or device != "cpu":
        raise UserError(
            f"--peers measures the common task, whose data are in {peers / 'data'}, on the CPU; "
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

    from seq2seq_attn.speed.tables import sitting_tables

    answer(f"{sitting.hardware}; {sitting.corpus}")
    console = Console() if Console().is_terminal else Console(width=200)  # a file has no terminal width
    for table in sitting_tables(sitting):
        shown = Table(title=table.title, title_justify="left", box=None)
        for index, name in enumerate(table.header):
            shown.add_column(name, justify="left" if index == 0 else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print()
        console.print(shown)
