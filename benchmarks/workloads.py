"""Measurements of our models: training steps, the parts of a training step, and decoding."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.benchmark import timer  # waits for an accelerator

from benchmarks.common_task import bench_corpus, timed_batches, training_batches, untrained_model
from benchmarks.records import BEAM_SIZE, DECODED_LENGTH, OTHER, PARTS, Effort, Job, Outcome
from seq2seq_attn.corpora.encoded import Ids
from seq2seq_attn.models.head import Loss
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops import fuse, replayed
from seq2seq_attn.search import SearchOptions, search
from seq2seq_attn.search.batched import autocast
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.loss import token_loss
from seq2seq_attn.training.optimizer import OptimizerConfig, make_optimizer

PROFILED_BATCHES = 15  # at most; the batches that training is timed on differ fivefold in tokens
_LABEL = "part: "
_BACKWARD = "autograd::engine::evaluate_function: "


def elapsed_seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of `work`, including what it has queued on an accelerator."""
    started = timer()
    work()
    return timer() - started


def peak_bytes(device: str) -> int:
    """Peak memory: of the accelerator if one is used, otherwise of this process; 0 where it is unknown, on Windows."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        # Not ru_maxrss: a process inherits its parent's.
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        try:
            resource: Any = import_module("resource")
        except ModuleNotFoundError:
            return 0
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class TrainingStep:
    """One training step on a batch, as the peers take it: cross-entropy, gradient norm clipped to 1, Adam."""

    def __init__(self, model: Seq2Seq, precision: str, device: str) -> None:
        self.model = fuse(model.to(device))
        self.token_loss = replayed(self.model, token_loss)
        self.parameters = list(model.parameters())
        self.optimizer = make_optimizer(self.parameters, OptimizerConfig())
        self.precision = precision
        self.device = torch.device(device)

    def __call__(self, batch: Batch) -> int:
        """Train on the batch; returns its number of target tokens."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            loss = self.loss(batch.to(self.device))
        torch.autograd.backward(loss.total / loss.tokens)
        self.clip()
        self.update()
        return loss.tokens

    def loss(self, batch: Batch) -> Loss:
        return self.token_loss(batch)

    def clip(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


def measure_training(job: Job, effort: Effort) -> Outcome:
    """Target tokens/s over all timed batches; drawing and padding the batches is included.

    On a GPU, the timed batches are trained on twice before: a shape is recorded when it occurs for the second time.
    """
    corpus = bench_corpus(job, effort)
    step = TrainingStep(untrained_model(job, corpus.entries), job.precision, effort.device)
    batches = training_batches(corpus, job)
    for _ in range(effort.warm_up):
        step(next(batches))
    if effort.device == "cuda":
        timed = list(islice(batches, effort.batches))
        for batch in [*timed, *timed]:
            step(batch)
        batches = islice(training_batches(corpus, job), effort.warm_up, None)
    counts: list[int] = []
    taken = elapsed_seconds(lambda: counts.extend(step(next(batches)) for _ in range(effort.batches)))
    return Outcome(sum(counts) / taken, peak_bytes(effort.device))


def measure_profile(job: Job, effort: Effort) -> Outcome:
    """Milliseconds per training step, by part and in total, under torch's profiler and including its overhead.

    The profiler times every operation. Labels around the model's methods assign the operations of the forward pass to
    parts. An operation of the backward pass belongs to the part of the forward operation with its sequence number.
    """
    corpus = bench_corpus(job, effort)
    step = TrainingStep(untrained_model(job, corpus.entries), job.precision, effort.device)
    for batch in islice(training_batches(corpus, job), effort.warm_up):
        step(batch)
    batches = timed_batches(corpus, job, effort, PROFILED_BATCHES)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if effort.device == "cuda" else [])]
    with labeled(step), profile(activities=activities) as profiler:
        for batch in batches:
            with record_function(_LABEL + OTHER):
                step(batch)
    taken = by_part(profiler.events(), effort.device)
    parts = {part: taken[part] / 1000 / len(batches) for part in (*PARTS, OTHER)}
    return Outcome(sum(parts.values()), peak_bytes(effort.device), parts)


@contextmanager
def labeled(step: TrainingStep) -> Iterator[None]:
    """Labels the methods of the model's parts for the profiler; in nested calls the innermost label counts."""
    model: Any = step.model
    methods: list[tuple[Any, str, str]] = [
        (step, "loss", "vocabulary loss"),
        (model, "encode", "encoder"),
        (model, "decode", "recurrence"),
        (model.encoder.embedding, "forward", "embedding"),
        (model.target_embedding, "forward", "embedding"),
        *((model.decoder.context, method, "attention") for method in ("prepare", "forward")),
        (model.readout, "forward", "readout"),
        (step, "clip", "clipping"),
        (step, "update", "optimizer"),
    ]
    for owner, method, part in methods:
        setattr(owner, method, _with_label(getattr(owner, method), part))
    try:
        yield
    finally:
        for owner, method, _ in methods:
            delattr(owner, method)  # the instance attribute; the class still has the method


def _with_label(method: Callable[..., Any], part: str) -> Callable[..., Any]:
    @wraps(method)
    def labeled_method(*args: Any, **kwargs: Any) -> Any:
        with record_function(_LABEL + part):
            return method(*args, **kwargs)

    return labeled_method


def by_part(events: Iterable[FunctionEvent], device: str) -> Counter[str]:
    """Microseconds of each part over all steps; OTHER gets what belongs to no part."""
    taken: Counter[str] = Counter()
    parts: dict[int, str] = {}  # of forward operations, by sequence number
    for event in sorted(events, key=lambda event: event.time_range.start):
        microseconds = event.device_time_total if device == "cuda" else event.cpu_time_total
        if event.name.startswith(_BACKWARD):
            part = parts.get(event.sequence_nr, OTHER)
            taken[part] += microseconds
            taken[OTHER] -= microseconds
        elif event.name.startswith(_LABEL):
            taken[event.name.removeprefix(_LABEL)] += microseconds
            taken[_enclosing_part(event)] -= microseconds
        elif event.sequence_nr >= 0:
            # An operation without an autograd node carries the number of the next one that has a node; that comes later
            # and overwrites this entry.
            parts[event.sequence_nr] = _enclosing_part(event)
    return taken


def _enclosing_part(event: FunctionEvent) -> str:
    """The innermost label around the event; "" around a whole step."""
    around = event.cpu_parent
    while around is not None and not around.name.startswith(_LABEL):
        around = around.cpu_parent
    return "" if around is None else around.name.removeprefix(_LABEL)


def measure_batched_decoding(job: Job, effort: Effort) -> Outcome:
    """Tokens/s over the test sentences in batches, every sentence decoded for the same number of steps."""
    return time_batches(*_decoder(job, effort), job, effort)


def time_batches(
    decode: Callable[[Sequence[Any]], object], sources: Sequence[Any], job: Job, effort: Effort
) -> Outcome:
    """Tokens/s of a function that decodes sentences in batches, after one batch; on a GPU, after all of them.

    There, steps of a shape that occurs for the first time are recorded.
    """
    decode(sources if effort.device == "cuda" else sources[: job.batch])
    taken = elapsed_seconds(lambda: decode(sources))
    return Outcome(len(sources) * job.steps / taken, peak_bytes(effort.device))


def measure_single_sentences(job: Job, effort: Effort) -> Outcome:
    """Mean milliseconds per sentence, translated one at a time; the median could not be measured for the peers."""
    return time_sentences(*_decoder(job, effort), job, effort)


def time_sentences(
    decode: Callable[[Sequence[Any]], object], sources: Sequence[Any], job: Job, effort: Effort
) -> Outcome:
    """Mean milliseconds of a function that decodes one sentence, after some."""
    for source in sources[: effort.warm_up]:
        decode([source])
    taken = elapsed_seconds(lambda: [decode([source]) for source in sources])
    return Outcome(1000 * taken / len(sources), peak_bytes(effort.device))


def timed_sentences(lengths: Sequence[int], job: Job, effort: Effort) -> list[int]:
    """Indices of the test sentences to translate.

    In batches: the first `effort.batches` full batches. One at a time: the `effort.batches` sentences closest to
    DECODED_LENGTH tokens.
    """
    if job.what in ("greedy", "beam"):
        return list(range(len(lengths)))[: effort.batches * job.batch]
    return sorted(range(len(lengths)), key=lambda index: abs(lengths[index] - DECODED_LENGTH))[: effort.batches]


def _decoder(job: Job, effort: Effort) -> tuple[Callable[[Sequence[Ids]], object], list[Ids]]:
    """A function that translates sentences, and the sentences."""
    corpus = bench_corpus(job, effort)
    options = SearchOptions(
        precision=job.precision,
        beam_size=BEAM_SIZE if job.what.endswith("beam") else 1,
        min_length=job.steps,
        max_length=job.steps,
        max_length_ratio=None,
        batch_size=job.batch,
        batch_tokens=job.batch * max(map(len, corpus.test)),
    )
    with autocast(options, effort.device):
        model = fuse(untrained_model(job, corpus.entries).to(effort.device).eval(), constant=True)

    def decode(sources: Sequence[Ids]) -> None:
        search(model, sources, options)

    return decode, [corpus.test[index] for index in timed_sentences([len(ids) for ids in corpus.test], job, effort)]
