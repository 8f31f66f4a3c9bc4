"""Speed of training and decoding, compared with the floor of this machine and with other toolkits.

Every measurement runs in a process of its own, and the systems take turns (`sitting`): machines are noisy, and memory
that one system does not release must not affect the next.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import messages

if TYPE_CHECKING:
    from seq2seq_attn.speed.measurements import Sitting

Workload = Literal[
    "training",  # target tokens/s
    "products",  # target tokens/s if training consisted of its necessary matrix products alone
    "bytes",  # target tokens/s if training consisted of its other necessary memory traffic alone
    "profile",  # milliseconds of a training step, by part
    "greedy",  # tokens/s, every sentence decoded for a fixed number of steps
    "beam",
    "sentence-greedy",  # milliseconds, one sentence at a time
    "sentence-beam",
]
ModelName = Literal["additive", "general", "general-feed", "distracted", "transformer"]  # described in `common_task.py`
Precision = Literal["fp32", "bf16"]
Axis = Literal["length", "batch", "vocabulary", "threads"]
Device = Literal["cpu", "cuda"]

BATCH = 64  # sentences
LENGTH_SWEEP_BATCH = 16  # 64 of 400 tokens take more memory than most machines have
LARGEST_BATCH = 10_000

WORKLOADS: tuple[Workload, ...] = get_args(Workload)
MODEL_NAMES: tuple[ModelName, ...] = get_args(ModelName)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AXES: tuple[Axis, ...] = get_args(Axis)

SWEPT_WORKLOADS: tuple[Workload, ...] = ("training", "products", "bytes")
SWEPT_MODELS: tuple[ModelName, ...] = ("additive",)
OF_RECURRENT_MODELS: tuple[Workload, ...] = ("products", "bytes", "profile")  # what a step consists of

WIDTH = 200  # of a sitting's tables as text, which have many columns

Choice = TypeVar("Choice", bound=str)


def bench(
    corpus: Path | str | None = None,
    *,
    what: Workload | Sequence[Workload] | None = None,
    model: ModelName | Sequence[ModelName] | None = None,
    precision: Precision | Sequence[Precision] = ("fp32", "bf16"),
    sweep: Axis | Sequence[Axis] = (),
    repeats: int = 3,
    batches: int = 30,
    warm_up: int = 5,
    batch: int | None = None,
    threads: int | None = None,
    device: Device = "cpu",
    peers: Path | str | None = None,
    output: Path | str | None = None,
    silent: bool = False,
) -> Sitting:
    """Measures the speed of training and decoding, each measurement in a process of its own, the systems in turn.

    `corpus` is a folder with `train.bpe.en`, `train.bpe.de`, `test.bpe.en` and `joint.vocab`; by default, sentences are
    synthetic. `what` names workloads, by default all: `products` and `bytes` estimate the least time that this machine
    needs for the matrix products of training and its other memory traffic; they and `profile` are for recurrent models.
    `model` names models of the common task, by default all. Instead of that task, `sweep` varies the sentence length,
    the batch size, the vocabulary or the threads, by default for the training of `additive` and its floor.

    In each of `repeats` rounds, every measurement takes `batches` batches of `batch` sentences, by default 64, or 16 in
    a sweep of the length, on `threads` threads, by default one per core. Training warms up with `warm_up` batches.
    `peers` is the folder prepared by benchmarks/peers/setup.sh; JoeyNMT and OpenNMT-py are then measured as well, on
    its corpus. The sitting is written to `output` after every round. Progress is printed to stderr unless `silent`;
    measurements that failed are named in the result.

    UserError: a name is unknown, a number too small, a file missing, or options exclude each other.

    >>> s2s.bench(what="training", model="general", precision="fp64", silent=True)
    Traceback (most recent call last):
    seq2seq_attn.errors.UserError: precision='fp64' is not known; choose from fp32, bf16
    """
    axes = _known("sweep", sweep, AXES)
    workloads = _known("what", what or (SWEPT_WORKLOADS if axes else WORKLOADS), WORKLOADS)
    models = _known("model", model or (SWEPT_MODELS if axes else MODEL_NAMES), MODEL_NAMES)
    precisions = _known("precision", precision, PRECISIONS)
    if not precisions:
        raise UserError(f"precision names none; choose from {', '.join(PRECISIONS)}")
    least = {"repeats": 1, "batches": 1, "warm_up": 0, "batch": 1, "threads": 1}
    given = {"repeats": repeats, "batches": batches, "warm_up": warm_up, "batch": batch, "threads": threads}
    for name, value in given.items():
        if value is not None and value < least[name]:
            raise UserError(f"{name}={value}: at least {least[name]}")
    if batch is not None and batch > LARGEST_BATCH:
        raise UserError(f"batch={batch:,}: at most {LARGEST_BATCH:,} sentences, so that a batch fits into memory")
    threads = threads or os.cpu_count() or 1
    folder = None if corpus is None else Path(corpus)
    if output is not None and Path(output).is_dir():
        raise UserError(f"{output}: a folder; name a file for the measurements")
    if peers is not None:
        if folder is not None or axes or device != "cpu":
            raise UserError(
                f"peers are measured on the common task, whose data are in {Path(peers) / 'data'}, on the CPU; "
                f"leave out the corpus, sweep and device"
            )
        folder = Path(peers) / "data"

    import torch

    from seq2seq_attn.speed import sitting
    from seq2seq_attn.speed.measurements import Effort, Job

    if peers is not None:
        sitting.refuse_without_peers(Path(peers))
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("device='cuda': this machine has no CUDA device; leave it out")

    def jobs_of(axis: Axis | None) -> list[Job]:
        default = LENGTH_SWEEP_BATCH if axis == "length" else BATCH
        jobs = sitting.common_jobs(workloads, models, precisions, threads, default if batch is None else batch)
        return jobs if axis is None else sitting.sweep_jobs(axis, jobs)

    varied: Sequence[Axis | None] = axes or [None]
    jobs = [job for axis in varied for job in jobs_of(axis)]
    effort, say = Effort(warm_up, batches, device, folder), messages(silent)
    tasks = list(sitting.plan_tasks(jobs, effort, None if peers is None else Path(peers)))
    started = sitting.new_sitting(jobs[0], effort)
    for line in sitting.unfused_models(jobs):
        say(line)
    return sitting.run_rounds(
        started, tasks, repeats, say, lambda found: None if output is None else found.save(output)
    )


def _known(option: str, given: Choice | Sequence[Choice], known: Sequence[Choice]) -> list[Choice]:
    """The names without duplicates; UserError for an unknown one."""
    names = dict.fromkeys([given] if isinstance(given, str) else given)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            raise UserError(f"{option}={name!r} is not known; {hint}")
    return list(names)
