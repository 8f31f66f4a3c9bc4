"""The sentence pairs and codecs of a configuration."""

from __future__ import annotations

from typing import NamedTuple

from seq2seq_attn.config import Config, PairFiles, TestFiles
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, read_gold_of
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.codec_training import train_codecs
from seq2seq_attn.text.corpus import ParallelCorpus, read_parallel, read_tsv
from seq2seq_attn.text.files import read_lines


def read_pairs(files: PairFiles) -> ParallelCorpus:
    """The pairs that a configuration names."""
    if files.tsv is not None:
        return read_tsv(files.tsv, files.columns)
    if files.source is None or files.target is None:
        raise UserError("a corpus needs either source and target, or tsv")
    return read_parallel(files.source, files.target)


class TestSet(NamedTuple):
    """Test pairs, and what is known of them beside."""

    pairs: ParallelCorpus
    lc_tok: list[str] | None  # the reference lowercased, normalised and tokenised
    gold: GoldCorpus | None  # word alignments


def read_test(files: TestFiles) -> TestSet:
    """The test set that a configuration names."""
    pairs = read_pairs(files)
    lc_tok = None if files.lc_tok is None else read_lines(files.lc_tok)
    if lc_tok is not None and len(lc_tok) != len(pairs):
        raise UserError(f"{files.lc_tok}: {len(lc_tok)} lines for the {len(pairs)} pairs of {pairs.name}")
    gold = None if files.alignments is None else read_gold_of(files.alignments, pairs.source, pairs.target)
    return TestSet(pairs, lc_tok, gold)


def train_text(config: Config, corpus: ParallelCorpus) -> tuple[Codec, Codec]:
    """Codecs of both sides, learnt from the training pairs."""
    text = config.text
    return train_codecs(
        corpus,
        text.tokeniser,
        vocabulary_size=text.vocabulary_size,
        joint=text.joint,
        minimum_frequency=text.minimum_frequency,
        source_language=text.source_language,
        target_language=text.target_language,
        lowercase=text.lowercase,
    )
