"""Search and forced decoding of a corpus of any size, in batches of similar length; results keep the corpus's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from seq2seq_attn.corpora.encoded import Ids
from seq2seq_attn.corpora.source import Source, Tokens, pad
from seq2seq_attn.models.replace import Model
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops.host import parallel_map
from seq2seq_attn.ops.int8 import quantized
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.beam import beam_search, greedy_search
from seq2seq_attn.search.groups import diverse_beam_search
from seq2seq_attn.search.hypotheses import Hypothesis
from seq2seq_attn.search.interruptible import AtStep, Interruptible, never
from seq2seq_attn.search.rules import NO_RULES, CorpusRules, NoRules
from seq2seq_attn.search.sampling import sample
from seq2seq_attn.search.shortlist import Shortlist, Shortlisted

Items = Sequence[Any]  # what a front end makes of lines: for text, token ids that end in `</s>`
Collate = Callable[[Items], Source]  # makes a batch of them
Method = Callable[[Seq2Seq, Any, SearchOptions, bool, NoRules], list[list[Hypothesis]]]
Progress = Callable[[int], object]  # called after each batch with its number of sentences

_Found = TypeVar("_Found")


def search(
    translator: Seq2Seq,
    sources: Items,
    options: SearchOptions,
    *,
    collate: Collate = pad,
    shortlist: Shortlist | None = None,
    rules: CorpusRules | None = None,
    with_weights: bool = False,
    progress: Progress | None = None,
    at_step: AtStep = never,
) -> list[list[Hypothesis]]:
    """The n best translations of each source, best first, or n samples, in the order of the sources.

    `options.mbr` compares texts, which a caller has to do (`runs/model.py`).

    `collate` makes a batch of sources, by default of token ids.

    With a shortlist, translations contain only the tokens that it lists for their batch, and those that the rules
    require. A model in training mode runs in evaluation mode, and the mode of every module is restored afterward.
    `at_step` is called before every step; what it raises ends the search. It may be called in several threads at once.
    """
    method = _method(options)
    translator = quantized_for(options, translator)
    device = device_of(translator)

    def asking(model: Seq2Seq) -> Seq2Seq:
        return model if at_step is never else Interruptible(model, at_step)

    def decode(rows: list[int], source: Any) -> list[list[Hypothesis]]:
        with autocast(options, device.type):
            if shortlist is None:
                own = NO_RULES if rules is None else rules.of(rows, device)
                return method(asking(translator), source, options, with_weights, own)
            tokens = shortlist.tokens(source, None if rules is None else rules.tokens(rows))
            own = NO_RULES if rules is None else rules.of(rows, device, tokens)
            found = method(asking(Shortlisted(translator, tokens)), source, options, with_weights, own)
        listed = tokens.tolist()
        return [[each._replace(tokens=[listed[i] for i in each.tokens]) for each in best] for best in found]

    return _in_batches(translator, decode, [(sources, collate)], options.batch_size, options.batch_tokens, progress)


def _method(options: SearchOptions) -> Method:
    if options.draws:
        return sample
    if options.beam_groups > 1:
        return diverse_beam_search
    return greedy_search if options.beam_size == 1 else beam_search


def autocast(options: SearchOptions, device: str) -> AbstractContextManager[object]:
    """The autocast context of a search on a device type; fp32 and int8 leave the caller's unchanged."""
    return torch.autocast(device, torch.bfloat16) if options.precision == "bf16" else nullcontext()


def quantized_for(options: SearchOptions, model: Model) -> Model:
    """The model to search with: a copy with int8 linear layers if the precision is int8, otherwise `model` itself."""
    return quantized(model) if options.precision == "int8" else model


def force_corpus(
    method: Callable[[Seq2Seq, Any, Tokens], list[_Found]],
    translator: Seq2Seq,
    sources: Items,
    targets: Sequence[Ids],
    *,
    collate: Collate = pad,
    batch_size: int = 64,
    batch_tokens: int = 4096,
    progress: Progress | None = None,
) -> list[_Found]:
    """The results of `force` or `force_heads`, for each pair, in the order of the pairs; otherwise as in `search`.

    A batch has at most `batch_tokens` tokens of the longer side, padding included.
    """

    def work(_: list[int], source: Any, target: Any) -> list[_Found]:
        return method(translator, source, target)

    return _in_batches(translator, work, [(sources, collate), (targets, pad)], batch_size, batch_tokens, progress)


def _in_batches(
    translator: Seq2Seq,
    work: Callable[..., list[_Found]],
    corpora: Sequence[tuple[Items, Collate]],
    batch_size: int,
    batch_tokens: int,
    progress: Progress | None,
) -> list[_Found]:
    """The results of `work`, given the numbers of some rows and their batches, for all rows of the parallel corpora."""
    lengths = [max(map(len, row)) for row in zip(*(items for items, _ in corpora), strict=True)]
    batches, device = list(_batches(lengths, batch_size, batch_tokens)), device_of(translator)
    found: dict[int, _Found] = {}
    with evaluation_mode(translator), parallel_map(device, len(batches)) as each:

        def work_on(batch: list[int]) -> list[_Found]:
            return work(batch, *(collate([items[row] for row in batch]).to(device) for items, collate in corpora))

        for batch, results in zip(batches, each(work_on, batches), strict=True):
            found.update(zip(batch, results, strict=True))
            if progress is not None:
                progress(len(batch))
    return [found[index] for index in range(len(lengths))]


def _batches(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> Iterator[list[int]]:
    """Batches of row numbers of similar length, the longest first, so that running out of memory shows at once."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) == batch_size or lengths[batch[0]] * (len(batch) + 1) > batch_tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def device_of(model: nn.Module) -> torch.device:
    """Where the model computes."""
    return next(model.parameters(), torch.empty(0, device="cpu")).device


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Sets evaluation mode in the block, and restores the mode of every module."""
    # A model in evaluation mode stays as it is: looking at every module takes a good part of one short sentence.
    training = [module for module in model.modules() if module.training] if model.training else []
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
