"""A corpus of any size: sorted by length, cut into batches, searched or scored, put back into its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from seq2seq_attn.models.translator import Sentences, Translator, pad
from seq2seq_attn.search.beam import beam_search
from seq2seq_attn.search.forced import Forced, force
from seq2seq_attn.search.greedy import greedy_search
from seq2seq_attn.search.hypothesis import Hypothesis
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.search.shortlist import Shortlist, Shortlisted

Corpus = Sequence[Sequence[int]]  # token ids, every sentence closed by `</s>`
Progress = Callable[[int], object]  # called after each batch with its number of sentences

BATCHES_A_THREAD = 2  # at least, lest some threads wait for the last batches of others

_Found = TypeVar("_Found")


def search(
    translator: Translator,
    sources: Corpus,
    options: SearchOptions,
    *,
    shortlist: Shortlist | None = None,
    with_weights: bool = False,
    progress: Progress | None = None,
) -> list[list[Hypothesis]]:
    """The n best translations of each source, best first, in the order of the sources.

    With a shortlist they are made of the tokens that it lists for their batch. Runs in evaluation mode, which is undone
    afterwards, on the device of the model's parameters.
    """
    method = greedy_search if options.beam_size == 1 else beam_search
    translator = options.quantised(translator)

    def decode(source: Sentences) -> list[list[Hypothesis]]:
        with options.autocast(source.tokens.device.type):
            if shortlist is None:
                return method(translator, source, options, with_weights)
            tokens = shortlist.tokens(source)
            found = method(Shortlisted(translator, tokens), source, options, with_weights)
        listed = tokens.tolist()
        return [[each._replace(tokens=[listed[i] for i in each.tokens]) for each in best] for best in found]

    return _in_batches(translator, decode, (sources,), options.batch_size, options.batch_tokens, progress)


def force_corpus(
    translator: Translator,
    sources: Corpus,
    targets: Corpus,
    *,
    batch_size: int = 64,
    batch_tokens: int = 4096,
    progress: Progress | None = None,
) -> list[Forced]:
    """Forced decoding of each pair, in the order of the pairs; otherwise as `search`."""

    def score(source: Sentences, target: Sentences) -> list[Forced]:
        return force(translator, source, target)

    return _in_batches(translator, score, (sources, targets), batch_size, batch_tokens, progress)


def _in_batches(
    translator: Translator,
    work: Callable[..., list[_Found]],
    corpora: Sequence[Corpus],
    batch_size: int,
    batch_tokens: int,
    progress: Progress | None,
) -> list[_Found]:
    """What `work` finds for each row of the parallel corpora, in their order."""
    lengths = [max(map(len, row)) for row in zip(*corpora, strict=True)]
    batches = list(_batches(lengths, batch_size, batch_tokens))
    found: dict[int, _Found] = {}
    with _evaluating(translator) as device, _shared_out(device, len(batches)) as each:

        def of_batch(batch: list[int]) -> list[_Found]:
            return work(*(pad([corpus[index] for index in batch], device) for corpus in corpora))

        for batch, results in zip(batches, each(of_batch, batches), strict=True):
            found.update(zip(batch, results, strict=True))
            if progress is not None:
                progress(len(batch))
    return [found[index] for index in range(len(lengths))]


def _batches(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> Iterator[list[int]]:
    """Rows of similar length; the longest first, so that what does not fit in memory shows at once."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) == batch_size or lengths[batch[0]] * (len(batch) + 1) > batch_tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@contextmanager
def _shared_out(device: torch.device, batches: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` in which every thread that torch has works on a batch of its own, if there are many, on a CPU.

    A step of a search is some sixty small operations beside a few products: threads that share these wait for each
    other.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or batches < BATCHES_A_THREAD * threads:
        yield map
        return
    casts, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def each(work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterable[Any]:
        def in_thread(part: Any) -> Any:
            with torch.autocast("cpu", dtype, enabled=casts):  # which a thread does not inherit
                return work(part)

        return workers.map(in_thread, parts)

    workers = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        workers.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # of which MKL has but one for all threads


@contextmanager
def _evaluating(translator: Translator) -> Iterator[torch.device]:
    """Evaluation mode, and afterwards every part's own mode again. Yields the model's device."""
    modes = [(module, module.training) for module in translator.modules()]
    translator.eval()
    try:
        yield next((parameter.device for parameter in translator.parameters()), torch.device("cpu"))
    finally:
        for module, training in modes:
            module.training = training
