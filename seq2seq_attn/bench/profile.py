"""Where the time of a training step goes: milliseconds by part.

Torch's profiler says how long every operation took. Which part one of the forward pass belongs to, names that are put
around the model's methods say; one of the backward pass belongs where the operation does that it undoes, which shares
its sequence number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import Any

from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from seq2seq_attn.bench.corpus import batches, corpus_of, timed_batches
from seq2seq_attn.bench.job import Effort, Job, Outcome
from seq2seq_attn.bench.models import build
from seq2seq_attn.bench.parts import OTHER, PARTS
from seq2seq_attn.bench.timing import peak_bytes
from seq2seq_attn.bench.training import TrainingStep

BATCHES = 15  # at most, of those that training is timed on; they differ fivefold in tokens
_MARK = "part: "
_BACKWARD = "autograd::engine::evaluate_function: "


def measure_profile(job: Job, effort: Effort) -> Outcome:
    """Milliseconds a step, the profiler's own included, and those of each part; "other" is what is left of them."""
    corpus = corpus_of(job, effort)
    step = TrainingStep(build(job, corpus.entries), job.precision, effort.device)
    for batch in islice(batches(corpus, job), effort.warm_up):
        step(batch)
    drawn = timed_batches(corpus, job, effort, BATCHES)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if effort.device == "cuda" else [])]
    with named(step), profile(activities=activities) as profiler:
        for batch in drawn:
            with record_function(_MARK + OTHER):
                step(batch)
    taken = by_part(profiler.events(), effort.device)
    parts = {part: taken[part] / 1000 / len(drawn) for part in (*PARTS, OTHER)}
    return Outcome(sum(parts.values()), peak_bytes(effort.device), parts)


@contextmanager
def named(step: TrainingStep) -> Iterator[None]:
    """While it lasts, the methods of the model's parts say whose they are; those within another are counted there."""
    model: Any = step.module.translator
    methods: list[tuple[Any, str, str]] = [
        (step.module, "loss", "vocabulary loss"),
        (model, "encode", "encoder"),
        (model, "decode", "recurrence"),
        (model.source_embedding, "forward", "embedding"),
        (model.target_embedding, "forward", "embedding"),
        *((model.decoder.context, method, "attention") for method in ("prepare", "forward", "step")),
        (model.readout, "forward", "readout"),
        (step, "clip", "clipping"),
        (step, "update", "optimiser"),
    ]
    for owner, method, part in methods:
        setattr(owner, method, _marked(getattr(owner, method), part))
    try:
        yield
    finally:
        for owner, method, _ in methods:
            delattr(owner, method)  # of the object; its class still has it


def _marked(method: Callable[..., Any], part: str) -> Callable[..., Any]:
    @wraps(method)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with record_function(_MARK + part):
            return method(*args, **kwargs)

    return marked


def by_part(events: Iterable[FunctionEvent], device: str) -> Counter[str]:
    """Microseconds of each part over all steps, and of "other": what no part of a step has."""
    taken: Counter[str] = Counter()
    part_of: dict[int, str] = {}  # a node of the graph, by its sequence number: the part that made it
    for event in sorted(events, key=lambda event: event.time_range.start):
        microseconds = event.device_time_total if device == "cuda" else event.cpu_time_total
        if event.name.startswith(_BACKWARD):
            part = part_of.get(event.sequence_nr, OTHER)
            taken[part] += microseconds
            taken[OTHER] -= microseconds
        elif event.name.startswith(_MARK):
            taken[event.name.removeprefix(_MARK)] += microseconds
            taken[_part_around(event)] -= microseconds
        elif event.sequence_nr >= 0:
            # An operation that makes no node has the number of the next one that does; that comes later.
            part_of[event.sequence_nr] = _part_around(event)
    return taken


def _part_around(event: FunctionEvent) -> str:
    """The innermost that the event happened in; "" for a whole step."""
    around = event.cpu_parent
    while around is not None and not around.name.startswith(_MARK):
        around = around.cpu_parent
    return "" if around is None else around.name.removeprefix(_MARK)
