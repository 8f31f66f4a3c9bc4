"""A sitting: our models and the peers, measured in turn in every round, so that noise affects all of them equally.

The peers are driven by the scripts in benchmarks/peers, in an environment of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_attn import ops
from seq2seq_attn.bench.common_task import TEST, bench_corpus, untrained_model
from seq2seq_attn.bench.measurements import (
    BEAM_SIZE,
    OURS,
    Axis,
    Effort,
    Job,
    Measurement,
    Outcome,
    Precision,
    Sitting,
    Workload,
)
from seq2seq_attn.bench.worker import MeasurementFailedError, measure_own, run_process
from seq2seq_attn.bench.workloads import timed_sentences
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.provenance import made_with
from seq2seq_attn.text.files import read_lines

SMALL_VOCABULARY = 100  # which operations are fused does not depend on it
LENGTH_SWEEP_BATCH = 16  # sentences: 64 of 400 tokens take more memory than most machines have

DRIVERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
PYTHON, DATA = Path("venv/bin/python"), Path("data")  # in the folder that setup.sh prepared
PEER_WORKLOADS: tuple[Workload, ...] = ("training", "greedy", "beam", "sentence-greedy", "sentence-beam")


class Peer(NamedTuple):
    """Another toolkit in one setting, and the name of our comparable model."""

    name: str
    driver: str
    settings: Mapping[str, Any]
    model: str


PEERS = (
    Peer("JoeyNMT Bahdanau, input feeding", "joey.py", {"attention": "bahdanau"}, "additive"),
    Peer("JoeyNMT Luong, input feeding", "joey.py", {"attention": "luong"}, "general-feed"),
    Peer("OpenNMT-py MLP, input feeding", "opennmt.py", {"attention": "mlp", "input_feeding": True}, "additive"),
    Peer("OpenNMT-py MLP", "opennmt.py", {"attention": "mlp", "input_feeding": False}, "additive"),
    Peer(
        "OpenNMT-py general, input feeding",
        "opennmt.py",
        {"attention": "general", "input_feeding": True},
        "general-feed",
    ),
    Peer("OpenNMT-py general", "opennmt.py", {"attention": "general", "input_feeding": False}, "general"),
)


def refuse_without_peers(folder: Path) -> None:
    """Raises UserError if the peers cannot be run from this folder."""
    if not DRIVERS.is_dir():
        raise UserError("--peers needs the scripts of benchmarks/peers, which only a checkout of the repository has")
    if not (folder / PYTHON).exists():
        raise UserError(f"{folder / PYTHON}: no such file; prepare the folder with benchmarks/peers/setup.sh {folder}")


def measure_peer(peer: Peer, folder: Path, job: Job, effort: Effort) -> Outcome:
    """The peer's measurement of the job, in its own environment."""
    lines = read_lines(folder / DATA / TEST)
    lengths = [len(line.split()) + 1 for line in lines]  # </s> counts, as in our ids
    order = {
        "job": asdict(job),
        "effort": {"warm_up": effort.warm_up, "batches": effort.batches},
        "settings": dict(peer.settings),
        "beam_size": BEAM_SIZE,
        "steps": job.steps,
        "sentences": [lines[index] for index in timed_sentences(lengths, job, effort)],
    }
    command = [str((folder / PYTHON).absolute()), str(DRIVERS / peer.driver)]
    return run_process(command, order, job.threads, folder)


def common_jobs(
    workloads: Sequence[Workload], models: Sequence[str], precisions: Sequence[Precision], threads: int, batch: int
) -> list[Job]:
    """Every workload with every model in every precision."""
    return [
        Job(workload, model, precision, threads, batch)
        for workload in workloads
        for model in models
        for precision in precisions
    ]


def sweep_jobs(axis: Axis, jobs: Sequence[Job]) -> list[Job]:
    """The jobs at every value of the axis."""
    values = {
        "length": (10, 25, 50, 100, 200, 400),
        "batch": (1, 4, 16, 64, 256),
        "vocabulary": (1_000, 4_000, 16_000, 64_000),
        "threads": tuple(2**power for power in range((os.cpu_count() or 1).bit_length())),
    }
    fixed: dict[str, Any] = {"sweep": axis} | ({"batch": LENGTH_SWEEP_BATCH} if axis == "length" else {})
    return [replace(job, **fixed | {axis: value}) for value in values[axis] for job in jobs]


class Task(NamedTuple):
    """A job of one system, and the function that measures it."""

    system: str
    job: Job
    measure: Callable[[], Outcome]


def plan_tasks(jobs: Sequence[Job], effort: Effort, peers: Path | None) -> Iterator[Task]:
    """Our jobs; after the last of each workload and model, the comparable peers, which have fp32 only."""
    for job, following in zip(jobs, [*jobs[1:], None], strict=True):
        yield Task(OURS, job, partial(measure_own, job, effort))
        is_last = following is None or (following.what, following.model) != (job.what, job.model)
        if peers is None or not is_last or job.what not in PEER_WORKLOADS:
            continue
        for peer in PEERS:
            if peer.model == job.model:
                theirs = replace(job, precision="fp32")
                yield Task(peer.name, theirs, partial(measure_peer, peer, peers, theirs, effort))


def new_sitting(job: Job, effort: Effort) -> Sitting:
    """A sitting without measurements. Raises UserError if the corpus cannot be read."""
    common = replace(job, sweep=None, length=None, vocabulary=None)
    provenance = made_with("cpu" if effort.device == "cpu" else "auto", job.threads)
    return Sitting(
        started=datetime.now().astimezone().isoformat(timespec="minutes"),
        version=str(provenance["version"]),
        commit=provenance["commit"],
        hardware=str(provenance["hardware"]),
        corpus=bench_corpus(common, effort).name,
        warm_up=effort.warm_up,
        batches=effort.batches,
        figures=(),
    )


def unfused_models(jobs: Sequence[Job]) -> Iterator[str]:
    """A line for each model that is not computed by fused operations alone: which parts are not, and why."""
    for name in dict.fromkeys(job.model for job in jobs):
        unfused = ops.unfused(untrained_model(next(job for job in jobs if job.model == name), SMALL_VOCABULARY))
        if unfused is not None:
            yield f"{name}: {unfused}"


def run_rounds(
    sitting: Sitting,
    tasks: Sequence[Task],
    rounds: int,
    say: Callable[[str], object],
    keep: Callable[[Sitting], object],
) -> Sitting:
    """The sitting with the measurements of all rounds; `keep` receives it after each round.

    A task that fails is reported through `say` and dropped.
    """
    outcomes: dict[int, list[Outcome]] = {number: [] for number in range(len(tasks))}
    measured = sitting
    for current in range(1, rounds + 1):
        for number in list(outcomes):
            task = tasks[number]
            about = f"round {current} of {rounds}: {task.system}, {task.job}"
            try:
                outcome = task.measure()
            except MeasurementFailedError as failure:
                say(f"{about}: {failure}")
                del outcomes[number]
                continue
            outcomes[number].append(outcome)
            say(f"{about}: {outcome.value:,.1f} {task.job.unit}, {outcome.peak_bytes / 1e9:.2f} GB")
        measured = replace(sitting, figures=[_measurement(tasks[number], each) for number, each in outcomes.items()])
        keep(measured)
    return measured


def _measurement(task: Task, outcomes: Sequence[Outcome]) -> Measurement:
    return Measurement(
        task.system,
        task.job,
        values=[outcome.value for outcome in outcomes],
        peak_bytes=[outcome.peak_bytes for outcome in outcomes],
        parts={part: [outcome.parts[part] for outcome in outcomes] for part in outcomes[0].parts},
    )
