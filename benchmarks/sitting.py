"""A sitting: our models and the peers, measured in turn in every round, so that noise affects all of them equally.

Each measurement runs in a process of its own. `python -m benchmarks.sitting` is that process for our models: it
reads a job and an effort as JSON from stdin and prints the outcome as JSON, as the last line of its output. The scripts
in benchmarks/peers, which drive the peers in an environment of their own, follow the same protocol.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import TypeAdapter

from benchmarks.common_task import MODELS, TEST, bench_corpus
from benchmarks.floor import measure_bytes, measure_products
from benchmarks.records import (
    BEAM_SIZE,
    OF_RECURRENT_MODELS,
    OURS,
    Axis,
    Device,
    Effort,
    Job,
    Measurement,
    Outcome,
    Precision,
    Sitting,
    Workload,
)
from benchmarks.workloads import (
    measure_batched_decoding,
    measure_profile,
    measure_single_sentences,
    measure_training,
    timed_sentences,
)
from seq2seq_attn import ops
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops.host import keep_freed_memory
from seq2seq_attn.runs.provenance import run_provenance

MEASURES: dict[Workload, Callable[[Job, Effort], Outcome]] = {
    "training": measure_training,
    "products": measure_products,
    "bytes": measure_bytes,
    "profile": measure_profile,
    "greedy": measure_batched_decoding,
    "beam": measure_batched_decoding,
    "sentence-greedy": measure_single_sentences,
    "sentence-beam": measure_single_sentences,
}


class MeasurementFailedError(Exception):
    """A process ended without an outcome; the message has its exit code and the last line that it printed."""


def measure_own(job: Job, effort: Effort) -> Outcome:
    """Our own measurement of the job, in a new process."""
    return _measure_by("benchmarks.sitting", job, effort)


def measure_ctranslate2(job: Job, effort: Effort) -> Outcome:
    """CTranslate2's measurement of the job, with our weights exported to it, in a new process."""
    return _measure_by("benchmarks.ctranslate2", job, effort)


def _measure_by(module: str, job: Job, effort: Effort) -> Outcome:
    order = {
        "job": TypeAdapter(Job).dump_python(job, mode="json"),
        "effort": TypeAdapter(Effort).dump_python(effort, mode="json"),
    }
    return run_process([sys.executable, "-m", module], order, job.threads)


def run_process(command: Sequence[str], order: Mapping[str, Any], threads: int, folder: Path | None = None) -> Outcome:
    """Run a command in `folder` with this number of threads and the order on stdin; returns the outcome it prints.

    Nothing that the command has started outlives this call or this process, however they end. Raises
    MeasurementFailedError if the command fails or prints no outcome.
    """
    environment = {
        "GOMP_SPINCOUNT": "10000",  # as the program sets it
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
            start_new_session=True,  # a new process group, to which its child processes belong as well
        ) as process,
        _ended_together(process.pid),
    ):
        out, err = process.communicate(json.dumps(order))
    last = (err if process.returncode and err else out or err).strip().splitlines() or [""]
    if process.returncode == 0:
        with suppress(ValueError, TypeError):  # the last line is not an outcome
            return Outcome(**json.loads(out.splitlines()[-1] if out.strip() else ""))
    raise MeasurementFailedError(f"exit code {process.returncode}: {last[-1]}")


@contextmanager
def _ended_together(group: int) -> Iterator[None]:
    """Kills the process group at the end of the context, and if this process is killed within it.

    SIGTERM and SIGKILL give Python no chance to clean up. Therefore another process waits for end-of-file on a pipe
    whose only writer is this process: the system closes it when this process ends. Before the other process has
    started, end-of-file on stdin stops a worker or a driver, which do nothing without an order.

    Windows has no process groups: there, nothing but the command itself is killed, and only at the end of the context.
    """
    if not hasattr(os, "killpg"):
        try:
            yield
        finally:
            with suppress(OSError):  # it has ended
                os.kill(group, signal.SIGTERM)
        return
    script = f"import os, sys; sys.stdin.read(); os.killpg({group}, {signal.SIGKILL:d})"
    command = [sys.executable, "-I", "-S", "-c", script]  # without the paths of this process, so that it starts at once
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watchdog:
        try:
            yield
        finally:
            watchdog.kill()
            with suppress(ProcessLookupError, PermissionError):  # macOS: the latter for a zombie
                os.killpg(group, signal.SIGKILL)


def measure(job: Job, effort: Effort) -> Outcome:
    """Measure the job in this process, whose thread count and allocator settings it changes."""
    torch.set_num_threads(job.threads)
    keep_freed_memory()
    return MEASURES[job.what](job, effort)


SMALL_VOCABULARY = 100  # which operations are fused does not depend on it

DRIVERS = Path(__file__).resolve().parent / "peers"
PYTHON, DATA = Path("venv/bin/python"), Path("data")  # in the folder that setup.sh prepared
PEER_WORKLOADS: tuple[Workload, ...] = ("training", "greedy", "beam", "sentence-greedy", "sentence-beam")


class Peer(NamedTuple):
    """Another toolkit in one setting, and the name of our comparable model."""

    name: str
    driver: str
    settings: Mapping[str, Any]
    model: str

    @property
    def devices(self) -> tuple[Device, ...]:
        """Those on which its driver runs it."""
        return ("cpu", "cuda") if self.driver == "opennmt.py" else ("cpu",)


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
    Peer("JoeyNMT Transformer", "joey.py", {"attention": "transformer"}, "transformer"),
    Peer("OpenNMT-py Transformer", "opennmt.py", {"attention": "transformer", "input_feeding": False}, "transformer"),
)

CTRANSLATE2, CTRANSLATE2_MODEL = "CTranslate2 with our weights", "transformer"  # it decodes, and trains nothing


def refuse_without_peers(folder: Path) -> None:
    """Raises UserError if the peers cannot be run from this folder."""
    if not (folder / PYTHON).exists():
        raise UserError(f"{folder / PYTHON}: no such file; prepare the folder with benchmarks/peers/setup.sh {folder}")


def measure_peer(peer: Peer, folder: Path, job: Job, effort: Effort) -> Outcome:
    """The peer's measurement of the job, in its own environment."""
    lines = read_lines(folder / DATA / TEST)
    lengths = [len(line.split()) + 1 for line in lines]  # </s> counts, as in our ids
    order = {
        "job": asdict(job),
        "effort": {"warm_up": effort.warm_up, "batches": effort.batches, "device": effort.device},
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
    """Every workload with every model that it is for, in every precision; UserError if there is no such model."""
    jobs = [
        Job(workload, model, precision, threads, batch)
        for workload in workloads
        for model in models
        if workload not in OF_RECURRENT_MODELS or isinstance(MODELS[model], RecurrentConfig)
        for precision in precisions
    ]
    if not jobs:
        raise UserError(
            f"{', '.join(workloads)}: measured for recurrent models only, not for {', '.join(models)}; name one with "
            f"--model, or measure training"
        )
    return jobs


def sweep_jobs(axis: Axis, jobs: Sequence[Job]) -> list[Job]:
    """The jobs at every value of the axis."""
    values = {
        "length": (10, 25, 50, 100, 200, 400),
        "batch": (1, 4, 16, 64, 256),
        "vocabulary": (1_000, 8_000, 32_000, 64_000),
        "threads": tuple(2**power for power in range((os.cpu_count() or 1).bit_length())),
    }
    return [replace(job, sweep=axis, **{axis: value}) for value in values[axis] for job in jobs]


class Task(NamedTuple):
    """A job of one system, and the function that measures it."""

    system: str
    job: Job
    measure: Callable[[], Outcome]


def plan_tasks(jobs: Sequence[Job], effort: Effort, peers: Path | None) -> Iterator[Task]:
    """Our jobs; after the last of each workload and model, the comparable peers, in fp32."""
    for job, following in zip(jobs, [*jobs[1:], None], strict=True):
        yield Task(OURS, job, partial(measure_own, job, effort))
        is_last = following is None or (following.what, following.model) != (job.what, job.model)
        if peers is None or not is_last or job.what not in PEER_WORKLOADS:
            continue
        theirs = replace(job, precision="fp32")
        for peer in PEERS:
            if peer.model == job.model and effort.device in peer.devices:
                yield Task(peer.name, theirs, partial(measure_peer, peer, peers, theirs, effort))
        if job.model == CTRANSLATE2_MODEL and job.what != "training" and effort.device == "cpu":
            yield Task(CTRANSLATE2, theirs, partial(measure_ctranslate2, theirs, effort))


def new_sitting(job: Job, effort: Effort) -> Sitting:
    """A sitting without measurements. Raises UserError if the corpus cannot be read."""
    common = replace(job, sweep=None, length=None, vocabulary=None)
    provenance = run_provenance("cpu" if effort.device == "cpu" else "auto", job.threads)
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
        with torch.random.fork_rng(devices=[]):  # its weights are drawn
            unfused = ops.unfused(MODELS[name].build(SMALL_VOCABULARY, SMALL_VOCABULARY, joint=False))
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

    A task that fails is reported through `say`, recorded, and not repeated; what it measured before is kept.
    """
    outcomes: list[list[Outcome]] = [[] for _ in tasks]
    failed: set[int] = set()
    failures: list[str] = []
    measured = sitting
    for current in range(1, rounds + 1):
        for number, task in enumerate(tasks):
            if number in failed:
                continue
            about = f"round {current} of {rounds}: {task.system}, {task.job}"
            try:
                outcome = task.measure()
            except MeasurementFailedError as failure:
                failures.append(f"{about}: {failure}")
                say(failures[-1])
                failed.add(number)
                continue
            outcomes[number].append(outcome)
            memory = f", {outcome.peak_bytes / 1e9:.2f} GB" if outcome.peak_bytes else ""
            say(f"{about}: {outcome.value:,.1f} {task.job.unit}{memory}")
        figures = [_measurement(task, each) for task, each in zip(tasks, outcomes, strict=True) if each]
        measured = replace(sitting, figures=figures, failures=failures)
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


def main(measure: Callable[[Job, Effort], Outcome] = measure) -> None:
    """The process of one measurement: reads the order, prints the outcome."""
    order = json.load(sys.stdin)
    job, effort = TypeAdapter(Job).validate_python(order["job"]), TypeAdapter(Effort).validate_python(order["effort"])
    print(json.dumps(measure(job, effort)._asdict()))


if __name__ == "__main__":
    main()
