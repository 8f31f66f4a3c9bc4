"""What a training says before its first step: what it trains, on what, and what may go wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

import numpy as np
import torch

from seq2seq_attn import ops
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.unknown_words import UnknownWords
from seq2seq_attn.errors import SHOWN, shown
from seq2seq_attn.evaluation.corpus_scores import tokenizer_remark
from seq2seq_attn.ops.host import device_type, on_cuda
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.training.batches import EncodedPairs
from seq2seq_attn.training.processes import Processes

MANY_CUT_SHORT = 0.01  # of the training pairs: rare in translation, usual where a short input stands for a long output


def summary(
    model: TrainedModel, frozen: int, pairs: str, unknown: Mapping[str, UnknownWords], processes: Processes
) -> str:
    """One line: the devices, the parameters, of which some are frozen, the pairs (in words) and the vocabularies."""
    parameters = f"{model.parameters():,} parameters"
    if frozen:
        parameters += f" ({model.parameters() - frozen:,} trained, {frozen:,} frozen)"
    device = f"{_device(model.config, processes)}, {model.config.training.precision}"
    return f"{device}; {parameters}; {pairs}; {_vocabularies(model, unknown)}"


def remarks(model: TrainedModel, training: EncodedPairs, validation: Sequence[str]) -> Iterator[str]:
    """What makes this training slow or its scores lower than they could be; `validation` has the targets."""
    config, target = model.config, model.target
    found = (
        ops.slow_precision(config.training.precision, device_type(config.training.accelerator)),
        ops.unfused(model.translator),
        _cut_short(training, config.search),
        _changed_by(target, config, validation),
        tokenizer_remark(config.evaluation.words[0], config.text.target_language),
    )
    return (remark for remark in found if remark is not None)


def _device(config: Config, processes: Processes) -> str:
    """The devices that a run trains on."""
    several = f"{processes.world} processes, each on " if processes.world > 1 else ""
    threads = torch.get_num_threads()
    if on_cuda(config.training.accelerator):
        return f"{several}{torch.cuda.get_device_name()}"
    return f"{several}CPU with {threads} thread{'s' if threads > 1 else ''}"


def _vocabularies(model: TrainedModel, unknown: Mapping[str, UnknownWords]) -> str:
    """The sizes of both sides, and the shares of words that are unknown, by part of the data."""
    source, target = model.source, model.target
    if model.config.source is not None:
        sizes = f"{target.size:,} target, source {model.config.source.kind} of {source.size_in_words}"
    else:
        sizes = f"{source.size:,} joint" if source is target else f"{source.size:,} source, {target.size:,} target"
    words = ", ".join(f"{part} {counts}" for part, counts in unknown.items() if any(counts.shares.values()))
    return f"vocabulary {sizes}{'; unknown words: ' * bool(words)}{words}"


def _cut_short(pairs: EncodedPairs, options: SearchOptions) -> str | None:
    """A warning if search must end before the targets of many pairs do; None if there are few such pairs."""
    count = total = 0
    for source, target in pairs.lengths():
        lengths, places = np.unique(source, return_inverse=True)
        limits = np.array([options.limit(length) for length in lengths.tolist()])
        count += int(np.count_nonzero(target > limits[places]))
        total += len(target)
    if count < MANY_CUT_SHORT * total:
        return None
    rule, remedy = f"search.max_length={options.max_length}", "raise it"
    if options.max_length_ratio is not None:
        rule += f", and {options.max_length_ratio:g} S + {options.max_length_margin} for a source of S tokens"
        remedy = "raise search.max_length, or set search.max_length_ratio=null"
    return f"{count:,} of {total:,} training targets are longer than an output may be ({rule}); {remedy}"


def _changed_by(codec: Codec, config: Config, targets: Sequence[str]) -> str | None:
    """A warning with the number of validation targets that are changed by encoding and decoding; None if none is.

    No output can equal them. The example is one without unknown tokens, if there is one.
    """
    changes = list(codec.changes(targets))
    if not changes:
        return None
    unknown = sum(change.has_unknown for change in changes)
    line, decoded, _ = min(changes, key=lambda change: change.has_unknown)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(line, decoded, strict=False)))
    start = max(0, same - SHOWN // 3)
    return (
        f"{len(changes):,} of {len(targets):,} validation targets are changed by encoding and decoding "
        f"(text.tokenizer={config.text.tokenizer}; unknown tokens in {unknown:,} of them): {shown(line[start:])} comes "
        f"back as {shown(decoded[start:])}"
    )
