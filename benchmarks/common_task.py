"""The common task: the models that are measured, and the corpus that they train on and translate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.records import Effort, Job
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.encoded import EncodedLines, Ids
from seq2seq_attn.corpora.tokenizers import Word
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.models.transformer.config import TransformerConfig, TransformerDropout
from seq2seq_attn.strict import merge
from seq2seq_attn.training.batches import Batch, EncodedPairs

SOURCE, TARGET, TEST, VOCABULARY = "train.bpe.en", "train.bpe.de", "test.bpe.en", "joint.vocab"

PAIRS, TEST_SENTENCES, ENTRIES = 29_000, 1_000, 7_870  # as in Multi30k with a joint BPE of 8,000 merges


def _model(**differs: Any) -> RecurrentConfig:
    """Embeddings 256, GRU 256 per direction, decoder 512, dropout 0.3: the sizes that the peers are measured with."""
    common = {
        "tie_embeddings": "none",
        "decoder": {"kind": "bahdanau", "hidden_size": 512},
        "dropout": {"embedding": 0.3, "state": 0.3, "readout": 0.3},
    }
    return RecurrentConfig.model_validate(merge(common, differs))


MODELS: dict[str, ModelConfig] = {
    "additive": _model(context={"scorer": "additive"}),  # query H_{i-1}: Bahdanau et al. 2015
    "general": _model(context={"scorer": "general"}, decoder={"kind": "luong", "input_feeding": False}),
    "general-feed": _model(context={"scorer": "general"}, decoder={"kind": "luong", "input_feeding": True}),
    "distracted": _model(context={"kind": "fixed"}),
    # 4 + 4 layers of width 128: the sizes that docs/transformer.md calls tiny
    "transformer": TransformerConfig(tie_embeddings="none", dropout=TransformerDropout(embedding=0.3, state=0.3)),
}


def recurrent_model(name: str) -> RecurrentConfig:
    """The recurrent model of this name; TypeError if it is another one."""
    config = MODELS[name]
    if not isinstance(config, RecurrentConfig):
        raise TypeError(f"{name} is not a recurrent model")
    return config


def untrained_model(job: Job, vocabulary: int) -> Seq2Seq:
    """The job's model with random weights, which do not change any timing."""
    torch.manual_seed(1)
    return MODELS[job.model].build(vocabulary, vocabulary, joint=False)


class BenchCorpus(NamedTuple):
    source: EncodedLines
    target: EncodedLines
    test: Sequence[Ids]
    codec: Codec
    name: str

    @property
    def entries(self) -> int:
        """The number of vocabulary entries."""
        return len(self.codec.vocabulary)


def bench_corpus(job: Job, effort: Effort) -> BenchCorpus:
    """The corpus in the effort's folder, or a synthetic one if there is none or the job fixes lengths or vocabulary."""
    if effort.folder is not None and job.length is None and job.vocabulary is None:
        return read_corpus(effort.folder)
    return synthetic_corpus(job, effort)


def read_corpus(folder: Path) -> BenchCorpus:
    """The corpus that benchmarks/peers/setup.sh prepares.

    Raises UserError if a file is missing, or if source and target differ in their number of lines.
    """
    lines = {name: read_lines(folder / name) for name in (SOURCE, TARGET, TEST, VOCABULARY)}
    if len(lines[SOURCE]) != len(lines[TARGET]):
        raise UserError(
            f"{folder / SOURCE} has {len(lines[SOURCE])} lines and {TARGET} {len(lines[TARGET])}; "
            f"prepare the folder again with benchmarks/peers/setup.sh"
        )
    codec = Codec(Word(), Vocabulary(lines[VOCABULARY]))
    source, target, test = ([codec.encode(line) for line in lines[name]] for name in (SOURCE, TARGET, TEST))
    name = f"{len(source):,} pairs of {SOURCE} and {TARGET}, {len(codec.vocabulary):,} vocabulary entries"
    return BenchCorpus(EncodedLines.of(source), EncodedLines.of(target), test, codec, name)


def synthetic_corpus(job: Job, effort: Effort) -> BenchCorpus:
    """Sentences of random tokens with Zipfian frequencies.

    Unless the job fixes them, lengths are log-normal with the moments of Multi30k in BPE: log S ~ N(2.66, 0.29), and
    log T = 0.947 log S + 0.144 + N(0, 0.164).
    """
    draw = np.random.default_rng(1)
    entries = job.vocabulary or ENTRIES
    if job.length is None:
        pairs = PAIRS
        source = _rounded_exp(draw.normal(2.66, 0.29, pairs))
        target = _rounded_exp(0.947 * np.log(source) + 0.144 + draw.normal(0, 0.164, pairs))
        test = _rounded_exp(draw.normal(2.66, 0.29, TEST_SENTENCES))
    else:
        pairs = job.batch * (effort.warm_up + effort.batches)
        source = target = test = np.full(pairs, job.length)
    name = f"synthetic, with Multi30k's lengths: {pairs:,} pairs, {entries:,} vocabulary entries"
    sources, targets, tests = (_random_sentences(lengths, entries, draw) for lengths in (source, target, test))
    codec = Codec(Word(), Vocabulary([f"w{rank}" for rank in range(1, entries - len(SPECIALS) + 1)]))
    return BenchCorpus(EncodedLines.of(sources), EncodedLines.of(targets), tests, codec, name)


def training_batches(corpus: BenchCorpus, job: Job) -> Iterator[Batch]:
    """Endless batches in the order of a training run, epoch after epoch."""
    for epoch in count():
        yield from EncodedPairs(corpus.source, corpus.target, job.batch, seed=epoch)


def timed_batches(corpus: BenchCorpus, job: Job, effort: Effort, at_most: int) -> list[Batch]:
    """At most this many of the batches that training is timed on, evenly spaced."""
    timed = list(islice(training_batches(corpus, job), effort.warm_up, effort.warm_up + effort.batches))
    return timed[:: -(-len(timed) // at_most)]


def _rounded_exp(logarithms: NDArray[np.float64]) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = np.maximum(2, np.rint(np.exp(logarithms)).astype(np.int64))
    return lengths


def _random_sentences(lengths: NDArray[np.int64], entries: int, draw: np.random.Generator) -> list[list[int]]:
    """Ids from a log-uniform distribution: the n-th most frequent token has a frequency of about 1 / n."""
    ordinary = entries - len(SPECIALS)
    ranks = np.exp(draw.uniform(0, np.log(ordinary + 1), lengths.sum())).astype(np.int64) - 1
    ids = np.minimum(ranks, ordinary - 1) + len(SPECIALS)
    ends = np.cumsum(lengths)
    ids[ends - 1] = EOS
    return [part.tolist() for part in np.split(ids, ends[:-1])]
