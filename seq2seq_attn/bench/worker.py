"""A process that measures one figure: a job and an effort as JSON from stdin, the outcome as JSON to stdout.

python -m seq2seq_attn.bench.worker
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
from pydantic import TypeAdapter

from seq2seq_attn.bench.decoding import measure_batches, measure_sentences
from seq2seq_attn.bench.floor import measure_bytes, measure_products
from seq2seq_attn.bench.job import Effort, Job, Outcome, What
from seq2seq_attn.bench.profile import measure_profile
from seq2seq_attn.bench.training import measure_training
from seq2seq_attn.ops.memory import keep_freed_memory

MEASURES: dict[What, Callable[[Job, Effort], Outcome]] = {
    "training": measure_training,
    "products": measure_products,
    "bytes": measure_bytes,
    "profile": measure_profile,
    "greedy": measure_batches,
    "beam": measure_batches,
    "sentence-greedy": measure_sentences,
    "sentence-beam": measure_sentences,
}


def measure(job: Job, effort: Effort) -> Outcome:
    """The figure, measured here and now."""
    torch.set_num_threads(job.threads)
    keep_freed_memory()
    return MEASURES[job.what](job, effort)


def main() -> None:
    order = json.load(sys.stdin)
    job, effort = TypeAdapter(Job).validate_python(order["job"]), TypeAdapter(Effort).validate_python(order["effort"])
    print(json.dumps(measure(job, effort)._asdict()))


if __name__ == "__main__":
    main()
