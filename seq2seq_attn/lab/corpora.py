"""The sentence pairs and codecs of a configuration."""

from __future__ import annotations

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.errors import UserError
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.codec_training import train_codecs
from seq2seq_attn.text.corpus import ParallelCorpus, read_parallel, read_tsv


def read_pairs(files: PairFiles) -> ParallelCorpus:
    """The pairs that a configuration names."""
    if files.tsv is not None:
        return read_tsv(files.tsv, files.columns)
    if files.source is None or files.target is None:
        raise UserError("a corpus needs either source and target, or tsv")
    return read_parallel(files.source, files.target)


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
