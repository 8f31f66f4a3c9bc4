"""What is trained on and translated: a folder's corpus, or one drawn with Multi30k's lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.bench.job import Effort, Job
from seq2seq_attn.errors import UserError
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.encoded import EncodedSentences, Ids
from seq2seq_attn.text.files import read_lines
from seq2seq_attn.text.tokenisers import Word
from seq2seq_attn.text.vocabulary import EOS, SPECIALS, Vocabulary
from seq2seq_attn.training.batches import Batch, EncodedPairs, loader

SOURCE, TARGET, TEST, VOCABULARY = "train.bpe.en", "train.bpe.de", "test.bpe.en", "joint.vocab"

PAIRS, TEST_SENTENCES, ENTRIES = 29_000, 1_000, 7_870  # as Multi30k has them, in a joint BPE of 8,000 merges


class Corpus(NamedTuple):
    pairs: EncodedPairs
    test: Sequence[Ids]
    entries: int  # of the vocabulary
    name: str


def corpus_of(job: Job, effort: Effort) -> Corpus:
    """The effort's corpus, or a synthetic one where the job fixes lengths or vocabulary."""
    if effort.folder is not None and job.length is None and job.vocabulary is None:
        return read_corpus(effort.folder)
    return synthetic_corpus(job, effort)


def read_corpus(folder: Path) -> Corpus:
    """What benchmarks/peers/setup.sh prepares; UserError if a file of it is missing or not as long as the other."""
    lines = {name: read_lines(folder / name) for name in (SOURCE, TARGET, TEST, VOCABULARY)}
    if len(lines[SOURCE]) != len(lines[TARGET]):
        raise UserError(
            f"{folder / SOURCE} has {len(lines[SOURCE])} lines and {TARGET} {len(lines[TARGET])}; "
            f"prepare the folder anew with benchmarks/peers/setup.sh"
        )
    codec = Codec(Word(), Vocabulary(lines[VOCABULARY]))
    source, target, test = ([codec.encode(line) for line in lines[name]] for name in (SOURCE, TARGET, TEST))
    entries = len(codec.vocabulary)
    name = f"{len(source):,} pairs of {SOURCE} and {TARGET}, {entries:,} vocabulary entries"
    return Corpus(EncodedPairs(EncodedSentences.of(source), EncodedSentences.of(target)), test, entries, name)


def synthetic_corpus(job: Job, effort: Effort) -> Corpus:
    """Sentences of random tokens, frequent and rare ones as Zipf has it.

    Lengths are log-normal, with the moments that Multi30k's have in BPE: log S ~ N(2.66, 0.29), and
    log T = 0.947 log S + 0.144 + N(0, 0.164).
    """
    draw = np.random.default_rng(1)
    entries = job.vocabulary or ENTRIES
    if job.length is None:
        pairs = PAIRS
        source = _whole(draw.normal(2.66, 0.29, pairs))
        target = _whole(0.947 * np.log(source) + 0.144 + draw.normal(0, 0.164, pairs))
        test = _whole(draw.normal(2.66, 0.29, TEST_SENTENCES))
    else:
        pairs = job.batch * (effort.warm_up + effort.batches)
        source = target = test = np.full(pairs, job.length)
    name = f"synthetic, with Multi30k's lengths: {pairs:,} pairs, {entries:,} vocabulary entries"
    of_source, of_target, of_test = (_sentences(lengths, entries, draw) for lengths in (source, target, test))
    return Corpus(EncodedPairs(EncodedSentences.of(of_source), EncodedSentences.of(of_target)), of_test, entries, name)


def batches(corpus: Corpus, job: Job) -> Iterator[Batch]:
    """As a training draws them, epoch after epoch."""
    for epoch in count():
        yield from loader(corpus.pairs, job.batch, "sentences", seed=epoch)


def timed_batches(corpus: Corpus, job: Job, effort: Effort, at_most: int) -> list[Batch]:
    """Of those that a training is timed on, so many, evenly spaced."""
    timed = list(islice(batches(corpus, job), effort.warm_up, effort.warm_up + effort.batches))
    return timed[:: -(-len(timed) // at_most)]


def _whole(logarithms: NDArray[np.float64]) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = np.maximum(2, np.rint(np.exp(logarithms)).astype(np.int64))
    return whole


def _sentences(lengths: NDArray[np.int64], entries: int, draw: np.random.Generator) -> list[list[int]]:
    """Ids from a log-uniform draw: the n-th most frequent stands for about 1 / n of all."""
    ordinary = entries - len(SPECIALS)
    ranks = np.exp(draw.uniform(0, np.log(ordinary + 1), lengths.sum())).astype(np.int64) - 1
    ids = np.minimum(ranks, ordinary - 1) + len(SPECIALS)
    ends = np.cumsum(lengths)
    ids[ends - 1] = EOS
    return [part.tolist() for part in np.split(ids, ends[:-1])]
