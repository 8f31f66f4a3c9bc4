"""The matrix products that a training step cannot do without, at their real shapes.

A product is listed where mathematics needs it: neither for padding (except that attention reads the sources of a batch
as they lie, padded) nor for a state of zeros, and once for what is alike at every step; the gradient of a matrix that
every step uses is one product after the loop. v · tanh(...) is no product of matrices, and is among the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from seq2seq_attn.bench.parts import Part
from seq2seq_attn.models.recurrent.cells import CELLS
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.luong import LuongConfig


class Product(NamedTuple):
    """(rows, inner) times (inner, columns), for `batch` pairs of matrices at once, `times` one after another."""

    part: Part
    rows: int
    inner: int
    columns: int
    batch: int = 1
    times: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns * self.times


class Lengths(NamedTuple):
    """Tokens of each sentence of a batch, `</s>` included."""

    source: Sequence[int]
    target: Sequence[int]


def running(lengths: Sequence[int]) -> list[int]:
    """At each step, how many sentences are so long."""
    return [sum(length > step for length in lengths) for step in range(max(lengths))]


def training_products(config: RecurrentConfig, entries: int, lengths: Lengths) -> list[Product]:
    """All of a step, forward and backward; for an encoder of GRUs and the decoders of `models.MODELS`."""
    return [
        *_encoder(config, lengths.source),
        *_attention(config, lengths),
        *_recurrence(config, lengths.target),
        *_readout(config, lengths.target),
        *_linear("vocabulary loss", sum(lengths.target), _features(config), entries),
    ]


def _encoder(config: RecurrentConfig, source: Sequence[int]) -> Iterator[Product]:
    options = config.encoder
    gates = CELLS[options.cell].gates * options.hidden_size
    for layer in range(options.layers):
        inputs = config.embedding_size if layer == 0 else state_size(config)
        for _ in range(_directions(config)):
            yield from _linear("encoder", sum(source), inputs, gates)
            yield from _stepwise("encoder", running(source)[1:], options.hidden_size, gates)
    yield from _linear("encoder", len(source), state_size(config), config.decoder.hidden_size)  # H_0


def _attention(config: RecurrentConfig, lengths: Lengths) -> Iterator[Product]:
    """Keys, queries, scores and weighted sums; a fixed context has none of them."""
    if config.context.kind == "fixed":
        return
    size, query = state_size(config), config.decoder.hidden_size
    positions, steps = max(lengths.source), running(lengths.target)
    at_once = isinstance(config.decoder, LuongConfig) and not config.decoder.input_feeding
    yield from _linear("attention", sum(lengths.source), size, query)
    if config.context.scorer.name == "additive":
        yield from _stepwise("attention", steps, query, query)
    else:
        yield from _of_sentences(steps, query, positions, at_once)
    yield from _of_sentences(steps, positions, size, at_once)


def _recurrence(config: RecurrentConfig, target: Sequence[int]) -> Iterator[Product]:
    options, tokens, steps = config.decoder, sum(target), running(target)
    size = options.hidden_size
    gates = CELLS[options.cell].gates * size
    yield from _linear("recurrence", tokens, config.embedding_size, gates)
    yield from _stepwise("recurrence", steps, size, gates)
    if not isinstance(options, LuongConfig):
        if config.context.kind == "fixed":
            yield from _linear("recurrence", len(target), state_size(config), gates)
        else:
            yield from _stepwise("recurrence", steps, state_size(config), gates)
    elif options.input_feeding:
        yield from _stepwise("recurrence", steps[1:], size, gates)
        yield from _stepwise("recurrence", steps, state_size(config) + size, size)
    else:
        yield from _linear("recurrence", tokens, state_size(config) + size, size)


def _readout(config: RecurrentConfig, target: Sequence[int]) -> Iterator[Product]:
    if config.decoder.readout == "plain":
        return
    context, rest = state_size(config), config.decoder.hidden_size + config.embedding_size
    if config.context.kind == "fixed":
        yield from _linear("readout", len(target), context, _features(config))
        yield from _linear("readout", sum(target), rest, _features(config))
    else:
        yield from _linear("readout", sum(target), context + rest, _features(config))


def _linear(part: Part, rows: int, inputs: int, outputs: int) -> list[Product]:
    """y = W x of all rows at once, and back to x and W."""
    return [
        Product(part, rows, inputs, outputs),
        Product(part, rows, outputs, inputs),
        Product(part, outputs, rows, inputs),
    ]


def _stepwise(part: Part, steps: Sequence[int], inputs: int, outputs: int) -> Iterator[Product]:
    """The same where the rows of a step hang on those of the step before."""
    for rows, times in Counter(steps).items():
        yield Product(part, rows, inputs, outputs, times=times)
        yield Product(part, rows, outputs, inputs, times=times)
    if steps:
        yield Product(part, outputs, sum(steps), inputs)


def _of_sentences(steps: Sequence[int], inner: int, columns: int, at_once: bool) -> Iterator[Product]:
    """A row a step times a matrix of the sentence's own, and back to both; the rows at once, or step by step."""
    rows = [(len(steps), max(steps), 1)] if at_once else [(1, batch, times) for batch, times in Counter(steps).items()]
    for count, batch, times in rows:
        yield Product("attention", count, inner, columns, batch, times)
        yield Product("attention", count, columns, inner, batch, times)
    yield Product("attention", inner, len(steps), columns, batch=max(steps))


def flops(products: Iterable[Product]) -> int:
    return sum(product.flops for product in products)


def state_size(config: RecurrentConfig) -> int:
    """Of an encoder state, both directions together."""
    return _directions(config) * config.encoder.hidden_size


def _directions(config: RecurrentConfig) -> int:
    return 2 if config.encoder.bidirectional else 1


def _features(config: RecurrentConfig) -> int:
    """What the vocabulary is projected from."""
    if config.decoder.readout == "plain":
        return config.decoder.hidden_size
    return config.decoder.readout_size or config.embedding_size
