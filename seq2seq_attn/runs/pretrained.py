"""Embeddings initialized with pretrained word vectors, from files in the configuration or from objects in memory."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.corpora.vectors import Coverage, HasVectors, WordVectors, pretrained_embedding, read_vectors
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.runs import Say


class Pretrained(NamedTuple):
    """Word vectors, such as torchtext's `Vectors`; an embedding without vectors is initialized at random."""

    source: HasVectors | None = None
    target: HasVectors | None = None


def start_from_vectors(
    translator: Seq2Seq,
    config: Config,
    source: FrontEnd,
    target: Codec,
    given: Pretrained | None = None,
    say: Say = lambda _: None,
) -> dict[str, Coverage]:
    """Copies pretrained vectors into the embeddings of an untrained model; returns the coverage of each side.

    The vectors are `given`, or else those that the configuration names. Tokens without a vector and the special tokens
    keep their random initialization. UserError: the vectors do not fit the model.
    """
    vectors = _read_configured(config, source, target) if given is None else _checked(given, config)
    if vectors.source is None and vectors.target is None:
        return {}
    coverage, tables = {}, translator.embedding_tables()
    for side, pretrained, codec, table in (
        ("source", vectors.source, source, tables.source),
        ("target", vectors.target, target, tables.target),
    ):
        if pretrained is not None:
            vocabulary = _vocabulary(codec)
            assert table is not None  # of a codec
            weight = table.weight
            matrix, coverage[side] = pretrained_embedding(pretrained, vocabulary, weight.detach())
            with torch.no_grad():
                weight.copy_(matrix)
            say(_coverage_line(side, coverage[side]))
    return coverage


def _read_configured(config: Config, source: FrontEnd, target: Codec) -> Pretrained:
    @cache  # both sides may name the same file and share a vocabulary
    def read(path: Path | None, codec: FrontEnd) -> WordVectors | None:
        return None if path is None else read_vectors(path, _vocabulary(codec), config.model.embedding_size)

    files = config.model.pretrained_embeddings
    return Pretrained(read(files.source, source), read(files.target, target))


def _vocabulary(side: FrontEnd) -> Vocabulary:
    if not isinstance(side, Codec):
        raise UserError("pretrained vectors of the source need a source of text; give those of the target alone")
    return side.vocabulary


def _checked(given: Pretrained, config: Config) -> Pretrained:
    files = config.model.pretrained_embeddings
    if files.source or files.target:
        raise UserError(
            "model.pretrained_embeddings names files, but vectors were also passed in memory; use only one of the two"
        )
    two = given.source is not None and given.target is not None and given.source is not given.target
    if config.model.tie_embeddings == "all" and two:
        raise UserError(
            "model.tie_embeddings=all shares one embedding between both sides; give vectors for one side only"
        )
    return given


def _coverage_line(side: str, coverage: Coverage) -> str:
    line = f"{side} embedding: {coverage.found:,} of {coverage.tokens:,} tokens start from their vectors"
    if coverage.found:
        return line
    return (
        f"warning: {line}; vectors usually exist for words (text.tokenizer=word or moses), rarely for subwords "
        f"(bpe, unigram); text.lowercase must match the case of the file"
    )
