"""One measurement in a process of its own: how the process is run, and what it does.

`python -m seq2seq_attn.bench.worker` reads a job and an effort as JSON from stdin and prints the outcome as JSON, as
the last line of its output. The drivers of the peers follow the same protocol.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from seq2seq_attn.bench.floor import measure_bytes, measure_products
from seq2seq_attn.bench.measurements import Effort, Job, Outcome, Workload
from seq2seq_attn.bench.workloads import (
    measure_batched_decoding,
    measure_profile,
    measure_single_sentences,
    measure_training,
)
from seq2seq_attn.ops.host import keep_freed_memory

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
    order = {
        "job": TypeAdapter(Job).dump_python(job, mode="json"),
        "effort": TypeAdapter(Effort).dump_python(effort, mode="json"),
    }
    return run_process([sys.executable, "-m", "seq2seq_attn.bench.worker"], order, job.threads)


def run_process(command: Sequence[str], order: Mapping[str, Any], threads: int, folder: Path | None = None) -> Outcome:
    """Run a command in `folder` with this number of threads and the order on stdin; returns the outcome it prints.

    Nothing that the command has started outlives this call or this process, however they end. Raises
    MeasurementFailedError if the command fails or prints no outcome.
    """
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
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

    SIGTERM and SIGKILL give Python no chance to clean up. Therefore a shell waits for end-of-file on a pipe whose only
    writer is this process: the system closes it when this process ends. Before the shell has started, end-of-file on
    stdin stops a worker or a driver, which do nothing without an order.
    """
    script = "read line; kill -s KILL -- -$0"
    with subprocess.Popen(["sh", "-c", script, str(group)], stdin=subprocess.PIPE, start_new_session=True) as watchdog:
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


def main() -> None:
    order = json.load(sys.stdin)
    job, effort = TypeAdapter(Job).validate_python(order["job"]), TypeAdapter(Effort).validate_python(order["effort"])
    print(json.dumps(measure(job, effort)._asdict()))


if __name__ == "__main__":
    main()
