"""`bench`: speed of training and decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, argument, file, folder
from seq2seq_attn.cli.console import answer_json, answer_rich, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.speed import AXES, MODEL_NAMES, PRECISIONS, WIDTH, WORKLOADS, Device


def _names(choices: Sequence[str], help: str) -> Any:
    """An option that takes several of these names, separated by commas, as in `greedy,beam`."""
    return typer.Option(metavar=f"<{'|'.join(choices)}>,...", help=help)


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
            WORKLOADS,
            "Workloads; products and bytes are the floor of training. Default: all; with --sweep: "
            "training,products,bytes.",
        ),
    ] = None,
    model: Annotated[str | None, _names(MODEL_NAMES, "Models. Default: all; with --sweep: additive.")] = None,
    precision: Annotated[str, _names(PRECISIONS, "Precisions.")] = "fp32,bf16",
    sweep: Annotated[
        str | None, _names(AXES, "Vary one of these after the other instead of measuring the common task.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds over all measurements.")] = 3,
    batches: Annotated[
        int, typer.Option(min=1, help="Timed batches per round, or timed sentences when they are decoded singly.")
    ] = 30,
    warm_up: Annotated[int, typer.Option(min=0, help="Batches of training before the timed ones.")] = 5,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Sentences per batch. Default: 64; with --sweep length: 16.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: one per core.")] = None,
    device: Annotated[Device, typer.Option(help="Device for the models of this package.")] = "cpu",
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
    and maximum over the rounds. The floor (products, bytes) estimates the least time that this machine needs for
    the matrix products of training and for its other memory traffic.
    """
    if page is not None and not files:
        raise UserError("--page needs measurements from files: measure with --output FILE, then give --from FILE")
    if files:
        if output is not None:
            raise UserError("--from shows earlier measurements, and --output writes new ones; leave out one of the two")
        for path in files:
            _show(s2s.Sitting.load(path), as_json)
        if page is not None:
            from seq2seq_attn.speed.page import write_page

            say("\n".join(map(str, write_page(page, files))))
        return
    sitting = s2s.bench(
        corpus,
        what=_split(what),
        model=_split(model),
        precision=_split(precision),
        sweep=_split(sweep),
        repeats=repeats,
        batches=batches,
        warm_up=warm_up,
        batch=batch,
        threads=threads,
        device=device,
        peers=peers,
        output=output,
    )
    _show(sitting, as_json)
    if sitting.failures:
        raise typer.Exit(1)


def _split(names: str | None) -> Any:
    return () if names is None else names.split(",")


def _show(sitting: s2s.Sitting, as_json: bool) -> None:
    if as_json:
        answer_json(asdict(sitting))
    else:
        answer_rich(sitting, WIDTH)
