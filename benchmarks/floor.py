"""The floor of training: an estimate of the least time of a training step on this machine.

A step cannot avoid certain matrix products and certain memory traffic. Each is listed with its real size and then
timed in the fastest way that torch offers; the floor is the sum.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.utils.benchmark import Timer

from benchmarks.common_task import bench_corpus, recurrent_model, timed_batches, untrained_model
from benchmarks.records import Effort, Job, Outcome, StepPart
from benchmarks.workloads import peak_bytes
from seq2seq_attn.models.recurrent.cells import CELLS
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoderConfig
from seq2seq_attn.models.recurrent.luong import LuongConfig
from seq2seq_attn.ops.layers import has_onednn
from seq2seq_attn.training.batches import Batch

FLOOR_BATCHES = 10  # at most, of the batches that training is timed on: the shapes of each have to be timed
TRIALS = 3

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class BatchLengths(NamedTuple):
    """Tokens of each sentence of a batch, `</s>` included."""

    source: Sequence[int]
    target: Sequence[int]


def rows_per_step(lengths: Sequence[int]) -> list[int]:
    """The number of sentences that have not ended yet, for each step."""
    return [sum(length > step for length in lengths) for step in range(max(lengths))]


# Matrix products. A product is listed if it is necessary: not for padding (except that attention reads the padded
# sources of a batch) or an all-zero state, and only once if it is the same at every step. The gradient of a matrix that
# every step uses is one product after the loop. v . tanh(...) is not a matrix product; its traffic counts.


class Product(NamedTuple):
    """(rows, inner) @ (inner, columns), for `batch` pairs of matrices at once, `times` in sequence."""

    part: StepPart
    rows: int
    inner: int
    columns: int
    batch: int = 1
    times: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns * self.times


def training_products(config: RecurrentConfig, entries: int, lengths: BatchLengths) -> list[Product]:
    """All products of a step, forward and backward, for a GRU encoder and the decoders of `common_task.MODELS`."""
    return [
        *_encoder_products(config, lengths.source),
        *_attention_products(config, lengths),
        *_recurrence_products(config, lengths.target),
        *_readout_products(config, lengths.target),
        *_linear("vocabulary loss", sum(lengths.target), config.features, entries),
    ]


def total_flops(products: Iterable[Product]) -> int:
    return sum(product.flops for product in products)


def _encoder_products(config: RecurrentConfig, source: Sequence[int]) -> Iterator[Product]:
    options = _encoder(config)
    gates = CELLS[options.cell].gates * options.hidden_size
    for layer in range(options.layers):
        inputs = config.embedding_size if layer == 0 else _state_size(config)
        for _ in range(_directions(config)):
            yield from _linear("encoder", sum(source), inputs, gates)
            yield from _stepwise("encoder", rows_per_step(source)[1:], options.hidden_size, gates)
    yield from _linear("encoder", len(source), _state_size(config), config.decoder.hidden_size)  # H_0


def _attention_products(config: RecurrentConfig, lengths: BatchLengths) -> Iterator[Product]:
    """Keys, queries, scores and weighted sums; nothing for a fixed context."""
    if config.context.kind == "fixed":
        return
    size, query = _state_size(config), config.decoder.hidden_size
    positions, steps = max(lengths.source), rows_per_step(lengths.target)
    at_once = isinstance(config.decoder, LuongConfig) and not config.decoder.input_feeding
    yield from _linear("attention", sum(lengths.source), size, query)
    if config.context.scorer.name == "additive":
        yield from _stepwise("attention", steps, query, query)
    else:
        yield from _per_sentence(steps, query, positions, at_once)
    yield from _per_sentence(steps, positions, size, at_once)


def _recurrence_products(config: RecurrentConfig, target: Sequence[int]) -> Iterator[Product]:
    options, tokens, steps = config.decoder, sum(target), rows_per_step(target)
    size = options.hidden_size
    gates = CELLS[options.cell].gates * size
    yield from _linear("recurrence", tokens, config.embedding_size, gates)
    yield from _stepwise("recurrence", steps, size, gates)
    if not isinstance(options, LuongConfig):
        if config.context.kind == "fixed":
            yield from _linear("recurrence", len(target), _state_size(config), gates)
        else:
            yield from _stepwise("recurrence", steps, _state_size(config), gates)
    elif options.input_feeding:
        yield from _stepwise("recurrence", steps[1:], size, gates)
        yield from _stepwise("recurrence", steps, _state_size(config) + size, size)
    else:
        yield from _linear("recurrence", tokens, _state_size(config) + size, size)


def _readout_products(config: RecurrentConfig, target: Sequence[int]) -> Iterator[Product]:
    if config.decoder.readout == "plain":
        return
    context, rest = _state_size(config), config.decoder.hidden_size + config.embedding_size
    if config.context.kind == "fixed":
        yield from _linear("readout", len(target), context, config.features)
        yield from _linear("readout", sum(target), rest, config.features)
    else:
        yield from _linear("readout", sum(target), context + rest, config.features)


def _linear(part: StepPart, rows: int, inputs: int, outputs: int) -> list[Product]:
    """y = W x for all rows at once, and the gradients of x and W."""
    return [
        Product(part, rows, inputs, outputs),
        Product(part, rows, outputs, inputs),
        Product(part, outputs, rows, inputs),
    ]


def _stepwise(part: StepPart, steps: Sequence[int], inputs: int, outputs: int) -> Iterator[Product]:
    """y = W x and its gradients, if the rows of a step depend on those of the previous step."""
    for rows, times in Counter(steps).items():
        yield Product(part, rows, inputs, outputs, times=times)
        yield Product(part, rows, outputs, inputs, times=times)
    if steps:
        yield Product(part, outputs, sum(steps), inputs)


def _per_sentence(steps: Sequence[int], inner: int, columns: int, at_once: bool) -> Iterator[Product]:
    """One row per step times a matrix of its sentence, and both gradients; all rows at once, or step by step."""
    rows = [(len(steps), max(steps), 1)] if at_once else [(1, batch, times) for batch, times in Counter(steps).items()]
    for count, batch, times in rows:
        yield Product("attention", count, inner, columns, batch, times)
        yield Product("attention", count, columns, inner, batch, times)
    yield Product("attention", inner, len(steps), columns, batch=max(steps))


def _state_size(config: RecurrentConfig) -> int:
    """Size of an encoder state, both directions together."""
    return _directions(config) * _encoder(config).hidden_size


def _directions(config: RecurrentConfig) -> int:
    return 2 if _encoder(config).bidirectional else 1


def _encoder(config: RecurrentConfig) -> RecurrentEncoderConfig:
    if not isinstance(config.encoder, RecurrentEncoderConfig):
        raise TypeError(f"the floor is known for recurrent encoders only, got {config.encoder.kind}")
    return config.encoder


# Memory traffic besides the products. Between two products every input is read once, every result is written once, and
# no intermediate value is written at all: a lower bound for operations that are fused as far as possible.


class Traffic(NamedTuple):
    """A tensor of `numbers` elements, read or written in `passes`, `times` in sequence."""

    part: StepPart
    numbers: int
    passes: int
    times: int = 1
    is_single: bool = False  # fp32 whatever the precision of the products


def training_traffic(config: RecurrentConfig, entries: int, parameters: int, lengths: BatchLengths) -> list[Traffic]:
    """All traffic of a step, forward and backward, for the models that `training_products` supports."""
    source, target = lengths
    embedded = (sum(source) + sum(target)) * config.embedding_size
    features = config.decoder.readout_size or config.embedding_size
    return [
        # Forward, a row is read and written; backward, its gradient is.
        Traffic("embedding", embedded, passes=4),
        *_encoder_traffic(config, source),
        *_energy_traffic(config, lengths),
        *_cell_traffic("recurrence", rows_per_step(target), config.decoder.cell, config.decoder.hidden_size),
        *_attentional_traffic(config, target),
        # tanh: input and output; gradient, output and the gradient of the input.
        Traffic("readout", sum(target) * features, passes=5),
        # The logits are read, their gradients written.
        Traffic("vocabulary loss", sum(target) * entries, passes=2),
        # The gradients are read for their norm.
        Traffic("clipping", parameters, passes=1, is_single=True),
        # Gradients, weights and two moments are read; weights and moments written.
        Traffic("optimizer", parameters, passes=7, is_single=True),
    ]


def _encoder_traffic(config: RecurrentConfig, source: Sequence[int]) -> Iterator[Traffic]:
    options = _encoder(config)
    for _ in range(options.layers * _directions(config)):
        yield from _cell_traffic("encoder", rows_per_step(source), options.cell, options.hidden_size)


def _cell_traffic(part: StepPart, steps: Sequence[int], cell: str, size: int) -> Iterator[Traffic]:
    """The gates of a recurrent cell.

    Forward: the gates' two summands (of input and state) and H are read, H' is written. Backward: the gradient of H',
    the gates, one summand and H are read; the gradients of the summands (which differ in one gate only) and of H are
    written.
    """
    gates = CELLS[cell].gates
    passes = (2 * gates + 2) + (1 + gates + 2) + (gates + 1 + 1)
    for rows, times in Counter(steps).items():
        yield Traffic(part, rows * size, passes, times)


def _energy_traffic(config: RecurrentConfig, lengths: BatchLengths) -> Iterator[Traffic]:
    """The keys of additive attention at every step: read; backward, read again, and their gradient accumulated."""
    if config.context.kind == "attention" and config.context.scorer.name == "additive":
        keys = max(lengths.source) * config.decoder.hidden_size
        for sentences, times in Counter(rows_per_step(lengths.target)).items():
            yield Traffic("attention", sentences * keys, passes=4, times=times)


def _attentional_traffic(config: RecurrentConfig, target: Sequence[int]) -> Iterator[Traffic]:
    """The tanh of the attentional state (Luong et al. 2015, eq. 5), like that of the readout."""
    if config.decoder.kind == "luong":
        yield Traffic("recurrence", sum(target) * config.decoder.hidden_size, passes=5)


# Timing of both lists.


def measure_products(job: Job, effort: Effort) -> Outcome:
    """Target tokens/s if training consisted of its matrix products alone."""
    corpus = bench_corpus(job, effort)
    batches = timed_batches(corpus, job, effort, FLOOR_BATCHES)
    taken: dict[str, float] = defaultdict(float)
    for batch in batches:
        for product in training_products(recurrent_model(job.model), corpus.entries, _lengths(batch)):
            shape = product.batch, product.rows, product.inner, product.columns
            taken[product.part] += product.times * _product_seconds(shape, DTYPES[job.precision], effort.device)
    return _outcome(taken, batches, effort)


def measure_bytes(job: Job, effort: Effort) -> Outcome:
    """Target tokens/s if training consisted of its other memory traffic alone."""
    corpus = bench_corpus(job, effort)
    parameters = sum(parameter.numel() for parameter in untrained_model(job, corpus.entries).parameters())
    batches = timed_batches(corpus, job, effort, FLOOR_BATCHES)
    taken: dict[str, float] = defaultdict(float)
    for batch in batches:
        for traffic in training_traffic(recurrent_model(job.model), corpus.entries, parameters, _lengths(batch)):
            dtype = torch.float32 if traffic.is_single else DTYPES[job.precision]
            passes = traffic.passes * traffic.times
            taken[traffic.part] += passes * _pass_seconds(traffic.numbers, dtype, effort.device)
    return _outcome(taken, batches, effort)


@cache
def _product_seconds(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> float:
    """Seconds of a product of shape (batch, rows, inner, columns), computed in the fastest available way."""
    return min(_fastest_seconds(variant, device) for variant in product_variants(*shape, dtype, device))


@cache
def _pass_seconds(numbers: int, dtype: torch.dtype, device: str) -> float:
    """Seconds of one pass over a tensor: half of a copy, which reads one tensor and writes another."""
    source = torch.zeros(numbers, dtype=dtype, device=device)
    target = torch.empty_like(source)
    return _fastest_seconds(lambda: target.copy_(source), device) / 2


def _fastest_seconds(work: Callable[[], object], device: str) -> float:
    """The minimum over a few trials, each after calls that are not timed.

    An accelerator gets several calls per trial, so that the latency of a single launch does not dominate.
    """
    timed = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    return float(min(timed.timeit(20 if device == "cuda" else 1).mean for _ in range(TRIALS)))


def product_variants(
    batch: int, rows: int, inner: int, columns: int, dtype: torch.dtype, device: str
) -> Iterator[Callable[[], object]]:
    """Torch's product with the second matrix as it is or transposed, and oneDNN's, which torch rarely uses in fp32."""
    left = torch.ones(batch, rows, inner, dtype=dtype, device=device)
    right = torch.ones(batch, inner, columns, dtype=dtype, device=device)
    if batch > 1:
        yield lambda: torch.bmm(left, right)
        return
    one, other, transposed = left[0], right[0], right[0].t().contiguous()
    yield lambda: torch.mm(one, other)
    yield lambda: F.linear(one, transposed)
    if device == "cpu" and has_onednn(dtype):
        yield lambda: torch.ops.mkldnn._linear_pointwise(one, transposed, None, "none", [], "")


def _outcome(taken: Mapping[str, float], batches: Sequence[Batch], effort: Effort) -> Outcome:
    tokens = sum(int(batch.target.lengths.sum()) for batch in batches)
    milliseconds = {part: 1000 * seconds / len(batches) for part, seconds in taken.items()}
    return Outcome(tokens / sum(taken.values()), peak_bytes(effort.device), milliseconds)


def _lengths(batch: Batch) -> BatchLengths:
    return BatchLengths(batch.source.lengths.tolist(), batch.target.lengths.tolist())
