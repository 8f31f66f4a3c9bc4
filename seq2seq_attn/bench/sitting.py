"""A sitting: every system in turn, round after round, so that what the machine does meanwhile falls on all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from seq2seq_attn.bench import process
from seq2seq_attn.bench.corpus import corpus_of
from seq2seq_attn.bench.job import Axis, Effort, Job, Outcome, Precision, What
from seq2seq_attn.bench.peers import MEASURED, PEERS, measure_peer
from seq2seq_attn.bench.results import OURS, Figure, Sitting
from seq2seq_attn.runs.provenance import made_with

Say = Callable[[str], object]

SENTENCES_OF_ANY_LENGTH = 16  # a batch: 64 sentences of 400 tokens take more memory than most machines have


class Task(NamedTuple):
    """A figure to be measured, and how."""

    system: str
    job: Job
    measure: Callable[[], Outcome]


def tasks(jobs: Sequence[Job], effort: Effort, peers: Path | None) -> Iterator[Task]:
    """Ours and, after those of the same model, the peers that are like it, which have fp32 alone."""
    for job, following in zip(jobs, [*jobs[1:], None], strict=True):
        yield Task(OURS, job, partial(measure_own, job, effort))
        is_last = following is None or (following.what, following.model) != (job.what, job.model)
        if peers is None or not is_last or job.what not in MEASURED:
            continue
        for peer in PEERS:
            if peer.model == job.model:
                theirs = replace(job, precision="fp32")
                yield Task(peer.name, theirs, partial(measure_peer, peer, peers, theirs, effort))


def jobs(
    whats: Sequence[What], models: Sequence[str], precisions: Sequence[Precision], threads: int, batch: int
) -> list[Job]:
    """One of each."""
    return [
        Job(what, model, precision, threads, batch) for what in whats for model in models for precision in precisions
    ]


def along(axis: Axis, jobs: Sequence[Job]) -> list[Job]:
    """The jobs at every value of the axis."""
    values = {
        "length": (10, 25, 50, 100, 200, 400),
        "batch": (1, 4, 16, 64, 256),
        "vocabulary": (1_000, 4_000, 16_000, 64_000),
        "threads": tuple(2**power for power in range((os.cpu_count() or 1).bit_length())),
    }
    fixed: dict[str, Any] = {"sweep": axis} | ({"batch": SENTENCES_OF_ANY_LENGTH} if axis == "length" else {})
    return [replace(job, **fixed | {axis: value}) for value in values[axis] for job in jobs]


def measure_own(job: Job, effort: Effort) -> Outcome:
    """The job, in a process of its own."""
    order = {
        "job": TypeAdapter(Job).dump_python(job, mode="json"),
        "effort": TypeAdapter(Effort).dump_python(effort, mode="json"),
    }
    return process.run([sys.executable, "-m", "seq2seq_attn.bench.worker"], order, job.threads)


def opening(job: Job, effort: Effort) -> Sitting:
    """A sitting without figures yet. UserError if the corpus cannot be read."""
    common = replace(job, sweep=None, length=None, vocabulary=None)
    making = made_with("cpu" if effort.device == "cpu" else "auto", job.threads)
    return Sitting(
        started=datetime.now().astimezone().isoformat(timespec="minutes"),
        version=str(making["version"]),
        commit=making["commit"],
        hardware=str(making["hardware"]),
        corpus=corpus_of(common, effort).name,
        warm_up=effort.warm_up,
        batches=effort.batches,
        figures=(),
    )


def sit(opening: Sitting, tasks: Sequence[Task], rounds: int, say: Say, keep: Callable[[Sitting], object]) -> Sitting:
    """The opening with the figures of all rounds; `keep` gets what there is after each of them.

    A task whose process fails is said, and left out from then on.
    """
    found: dict[int, list[Outcome]] = {number: [] for number in range(len(tasks))}
    sitting = opening
    for taken in range(1, rounds + 1):
        for number in list(found):
            task = tasks[number]
            about = f"round {taken} of {rounds}: {task.system}, {described(task.job)}"
            try:
                outcome = task.measure()
            except process.Failed as failure:
                say(f"{about}: {failure}")
                del found[number]
                continue
            found[number].append(outcome)
            say(f"{about}: {outcome.value:,.1f} {task.job.unit}, {outcome.peak_bytes / 1e9:.2f} GB")
        sitting = replace(opening, figures=[_figure(tasks[number], outcomes) for number, outcomes in found.items()])
        keep(sitting)
    return sitting


def described(job: Job) -> str:
    setting = [f"{job.sweep} {getattr(job, job.sweep):,}"] if job.sweep else []
    return ", ".join([job.what, job.model, job.precision, *setting])


def _figure(task: Task, outcomes: Sequence[Outcome]) -> Figure:
    return Figure(
        task.system,
        task.job,
        values=[outcome.value for outcome in outcomes],
        peak_bytes=[outcome.peak_bytes for outcome in outcomes],
        parts={part: [outcome.parts[part] for outcome in outcomes] for part in outcomes[0].parts},
    )
