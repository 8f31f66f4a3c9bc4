"""Measure the speed of training and decoding: `python -m benchmarks --help`, from the root of a checkout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks import sitting
from benchmarks.common_task import MODELS
from benchmarks.page import write_page
from benchmarks.records import AXES, BATCH, PRECISIONS, WORKLOADS, Axis, Effort, Job, Sitting, Workload
from benchmarks.tables import sitting_text
from seq2seq_attn.errors import UserError

LENGTH_SWEEP_BATCH = 16  # sentences: 64 of 400 tokens take more memory than most machines have
LARGEST_BATCH = 10_000  # sentences, so that a batch fits into memory
SWEPT_WORKLOADS: Sequence[Workload] = ("training", "products", "bytes")
SWEPT_MODELS = ("additive",)


def number(least: int, most: int = 10**9) -> Callable[[str], int]:
    """A whole number within these limits."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:,} to {most:,}")
        return int(text)

    return parse


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Some of these names, separated by commas."""

    def parse(text: str) -> list[str]:
        chosen = list(dict.fromkeys(text.split(",")))
        if unknown := [each for each in chosen if each not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not known; choose from {', '.join(known)}")
        return chosen

    return parse


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the speed of training and decoding. Each measurement runs in its own process after a "
        "warm-up, and the systems take turns. Prints the median, minimum and maximum over the rounds. The floor "
        "(products, bytes) estimates the least time that this machine needs for the matrix products of training and "
        "for its other memory traffic.",
    )
    add = options.add_argument
    add("corpus", nargs="?", type=Path, help="folder with train.bpe.en, train.bpe.de, test.bpe.en and joint.vocab; "
        "default: a synthetic corpus")  # fmt: skip
    add("--what", type=names(WORKLOADS), help=f"of {','.join(WORKLOADS)}; default: all, with --sweep training and its "
        "floor; products and bytes are the floor of training, and with profile for recurrent models")  # fmt: skip
    add("--model", type=names([*MODELS]), help=f"of {','.join(MODELS)}; default: all, with --sweep additive")
    add("--precision", type=names(PRECISIONS), default=[*PRECISIONS], help="default: fp32,bf16")
    add("--sweep", type=names(AXES), default=[], help=f"vary one of {','.join(AXES)} after the other instead of "
        "measuring the common task")  # fmt: skip
    add("--repeats", type=number(1), default=3, help="rounds over all measurements; default: 3")
    add("--batches", type=number(1), default=30, help="timed batches per round, or timed sentences when they are "
        "decoded singly; default: 30")  # fmt: skip
    add("--warm-up", type=number(0), default=5, help="batches of training before the timed ones; default: 5")
    add("--batch", type=number(1, LARGEST_BATCH), help="sentences per batch; default: 64, with --sweep length 16")
    add("--threads", type=number(1), default=os.cpu_count() or 1, help="default: one per core")
    add(
        "--device",
        choices=["cpu", "cuda"],
        default="cpu",
        help="default: cpu; on a GPU, of the peers only OpenNMT-py is measured",
    )
    add("--peers", type=Path, help="also measure JoeyNMT and OpenNMT-py, in the folder prepared by "
        "benchmarks/peers/setup.sh, on its corpus")  # fmt: skip
    add("--output", type=Path, help="write the measurements to this JSON file, after every round")
    add(
        "--from",
        dest="files",
        type=Path,
        action="append",
        help="show these instead of measuring; repeatable",
    )
    add("--page", type=Path, help="with --from: write a Markdown page with plots")
    return options


def measure(options: argparse.Namespace) -> Sitting:
    """The measurements that the options ask for. UserError: they exclude each other, or something is missing."""
    if options.output is not None and options.output.is_dir():
        raise UserError(f"{options.output}: a folder; name a file for the measurements")
    folder = options.corpus
    if options.peers is not None:
        folder = options.peers / "data"
        if options.corpus or options.sweep:
            raise UserError(
                f"peers are measured on the common task, whose data are in {folder}; leave out the corpus and --sweep"
            )
        sitting.refuse_without_peers(options.peers)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: this machine has no CUDA device; leave it out")
    jobs = [job for axis in options.sweep or [None] for job in _jobs(options, axis)]
    effort = Effort(options.warm_up, options.batches, options.device, folder)
    tasks = list(sitting.plan_tasks(jobs, effort, options.peers))
    started = sitting.new_sitting(jobs[0], effort)
    for line in sitting.unfused_models(jobs):
        _say(line)
    keep = (lambda found: None) if options.output is None else lambda found: found.save(options.output)
    return sitting.run_rounds(started, tasks, options.repeats, _say, keep)


def _jobs(options: argparse.Namespace, axis: Axis | None) -> list[Job]:
    workloads: Sequence[Workload] = options.what or (SWEPT_WORKLOADS if axis else WORKLOADS)
    models = options.model or (SWEPT_MODELS if axis else list(MODELS))
    batch = options.batch or (LENGTH_SWEEP_BATCH if axis == "length" else BATCH)
    jobs = sitting.common_jobs(workloads, models, options.precision, options.threads, batch)
    return jobs if axis is None else sitting.sweep_jobs(axis, jobs)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: a measurement failed; 2: the arguments cannot be used."""
    options = (program := parser()).parse_args(arguments)
    try:
        if options.page is not None and not options.files:
            raise UserError("--page needs measurements from files: measure with --output FILE, then give --from FILE")
        if options.files and options.output is not None:
            raise UserError("--from shows earlier measurements, and --output writes new ones; leave out one of the two")
        sittings = [Sitting.load(path) for path in options.files or ()] or [measure(options)]
    except UserError as error:
        program.error(str(error))  # exits with code 2
    except KeyboardInterrupt:
        return 130
    for each in sittings:
        print(sitting_text(each))
    if options.page is not None:
        _say("\n".join(map(str, write_page(options.page, options.files))))
    return 1 if any(each.failures for each in sittings) and not options.files else 0


if __name__ == "__main__":
    sys.exit(main())
