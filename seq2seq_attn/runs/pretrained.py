"""Embeddings that start from pretrained word vectors: from files that the configuration names, or from objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.vectors import Coverage, HasVectors, WordVectors, pretrained_embedding, read_vectors


class Pretrained(NamedTuple):
    """Vectors such as torchtext's `Vectors`; an embedding without any starts at random."""

    source: HasVectors | None = None
    target: HasVectors | None = None


def start_from_vectors(
    translator: Translator,
    config: Config,
    source: Codec,
    target: Codec,
    given: Pretrained | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> dict[str, Coverage]:
    """Lays pretrained vectors, given or named by the configuration, into the embeddings; how many, side by side.

    Tokens without a vector keep their random rows, the special tokens theirs. UserError: the vectors do not fit.
    """
    vectors = _named(config, source, target) if given is None else _checked(given, config)
    if vectors.source is None and vectors.target is None:
        return {}
    coverage, tables = {}, translator.embedding_tables()
    for side, pretrained, codec, table in (
        ("source", vectors.source, source, tables.source),
        ("target", vectors.target, target, tables.target),
    ):
        if pretrained is not None:
            weight = table.weight
            matrix, coverage[side] = pretrained_embedding(pretrained, codec.vocabulary, weight.detach())
            with torch.no_grad():
                weight.copy_(matrix)
            say(_told(side, coverage[side]))
    return coverage


def _named(config: Config, source: Codec, target: Codec) -> Pretrained:
    @cache  # both sides may name one file, and share a vocabulary
    def read(path: Path | None, codec: Codec) -> WordVectors | None:
        return None if path is None else read_vectors(path, codec.vocabulary, config.model.embedding_size)

    files = config.model.pretrained_embeddings
    return Pretrained(read(files.source, source), read(files.target, target))


def _checked(given: Pretrained, config: Config) -> Pretrained:
    files = config.model.pretrained_embeddings
    if files.source or files.target:
        raise UserError("model.pretrained_embeddings names files, and vectors are given beside; leave one of them out")
    two = given.source is not None and given.target is not None and given.source is not given.target
    if config.model.tie_embeddings == "all" and two:
        raise UserError("model.tie_embeddings=all makes one embedding of both; give vectors for one side alone")
    return given


def _told(side: str, coverage: Coverage) -> str:
    told = f"{side} embedding: {coverage.found:,} of {coverage.tokens:,} tokens start from their vectors"
    if coverage.found:
        return told
    return (
        f"warning: {told}; subwords (text.tokeniser=bpe or unigram) rarely have one, words do (word, moses), "
        f"in the case of the file (text.lowercase)"
    )
