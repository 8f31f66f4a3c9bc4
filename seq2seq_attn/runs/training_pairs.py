"""The pairs that a run trains on and validates with, as they are read in batches."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.corpus import filter_pairs, usable_pairs
from seq2seq_attn.corpora.mixture import WINDOW, Mixture
from seq2seq_attn.errors import UserError
from seq2seq_attn.ops.host import on_cuda
from seq2seq_attn.runs.cache import Cache, Digest, cached_pairs, cached_text
from seq2seq_attn.runs.corpora import FrontEnds, iterate_pairs, linked_tokens, sampled_pairs
from seq2seq_attn.training.batches import EncodedPairs


def pairs_to_learn(
    config: Config, front_ends: FrontEnds, shared: Cache, digest_of: Digest, *, is_training: bool
) -> tuple[EncodedPairs, str]:
    """The pairs of training or validation that are neither blank nor too long, and what is left out, in words.

    As the configuration says, training pairs have links, or get a new segmentation in every epoch.
    """
    data, options, sampling = config.data, config.training, config.text.sampling
    files, longest = (data.train, data.longest_training) if is_training else (data.validation, data.max_length)
    key = "data.max_training_length" if is_training and data.max_training_length else "data.max_length"
    seed = config.seed if is_training else 0
    encoded = cached_pairs(files, front_ends, shared, digest_of)

    def lengths(lines: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        read, written = (
            each.lengths_of(lines) - side.marks for each, side in zip(encoded[:2], front_ends, strict=True)
        )
        return read, written

    pairs = sum(encoded.sizes)
    parts = (lengths(np.arange(start, min(start + WINDOW, pairs))) for start in range(0, pairs, WINDOW))
    filtered = filter_pairs(files.name, parts, longest, key)
    mixture = Mixture(
        encoded.sizes,
        [each.weight for each in data.train.corpora] if is_training else None,
        data.train.temperature if is_training else 1.0,
        seed,
        lambda lines: lines[usable_pairs(*lengths(lines), longest)],
    )
    in_words = str(filtered)
    if is_training and data.train.corpora:
        counts = mixture.counts()
        for one, count in zip(files.each, counts, strict=True):
            if not count:
                raise UserError(f"{one.name}: no pair is left to train on; leave the corpus out")
        drawn = (f"{count:,} of {(*one.paths, one.name)[0]}" for one, count in zip(files.each, counts, strict=True))
        in_words = f"{filtered}, in each epoch {', '.join(drawn)}"
    encode = links = None
    if is_training and sampling is not None:
        encode = sampled_pairs(cached_text(files, shared, digest_of), encoded, front_ends, sampling, seed, longest)
    if is_training and options.guided_alignment is not None:
        links = linked_tokens(options.guided_alignment.links, files, front_ends)
    dataset = EncodedPairs(
        encoded.source,
        encoded.target,
        options.batch_size,
        options.batch_unit,
        seed,
        mixture=mixture,
        links=links,
        collate=front_ends[0].collate,
        encode=encode,
        is_pinned=on_cuda(options.accelerator),
    )
    return dataset, in_words


def content_of(rows: NDArray[np.int64], files: PairFiles) -> bytes:
    """These pairs of the training text, one JSON object per line, with their line in the files, from 1.

    Where there are several corpora, each pair names its own.
    """
    wanted, found, row = set(rows.tolist()), {}, 0
    for one in files.each:
        corpus = {"corpus": one.name} if len(files.each) > 1 else {}
        for line, (source, target) in enumerate(iterate_pairs(one), start=1):
            if row in wanted:
                found[row] = corpus | {"line": line, "source": source, "target": target}
            row += 1
    return "".join(f"{json.dumps(found[row], ensure_ascii=False)}\n" for row in rows.tolist()).encode()
