"""Codecs are learned from the training text of one side, or of both."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.placeholders import Placeholders
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.corpora.tokenizers import TOKENIZERS, SentencePiece, Word
from seq2seq_attn.corpora.vocabulary import SPECIALS, Vocabulary


def default_size(lines: Sequence[str], pairs: int) -> int:
    """A vocabulary size for training text: its characters, the special tokens, and 40 √n more for n sentence pairs.

    About 2,200 for 3,000 pairs, 7,000 for 30,000 and 40,000 for a million: in a small corpus, what is rare is read and
    written in parts that are not.
    """
    characters = set().union(*map(set, lines))
    return len(SPECIALS) + len(characters) + round(40 * math.sqrt(pairs))


def train_codec(lines: Sequence[str], pairs: int, text: TextConfig, language: str) -> Codec:
    """The codec of one side, trained on its lines in a corpus of this many pairs, where symbols are in their places."""
    lines = list(map(Word(text.symbols).lowercase, lines)) if text.lowercase else lines
    size = text.vocabulary_size or default_size(lines, pairs) + len(text.symbols)
    if text.tokenizer in ("bpe", "unigram"):
        pieces = SentencePiece.train(
            lines,
            size,
            text.tokenizer,
            exact=text.vocabulary_size is not None,
            character_coverage=text.character_coverage,
            normalization=text.normalization,
            protected=text.symbols,
        )
        return Codec(pieces, pieces.vocabulary(), text.lowercase, False, text.placeholders, text.copy_slots)
    of_language = {"language": language} if text.tokenizer == "moses" else {}
    tokenizer = TOKENIZERS[text.tokenizer](protected=text.symbols, **of_language)
    vocabulary = Vocabulary.build(map(tokenizer.encode, lines), size, text.minimum_frequency, always=text.symbols)
    options = text.lowercase, text.match_known_forms, text.placeholders, text.copy_slots
    return Codec(tokenizer, vocabulary, *options)


def train_codecs(corpus: ParallelCorpus, text: TextConfig, pairs: int | None = None) -> tuple[Codec, Codec]:
    """The codecs of both sides, trained on a corpus; a joint one is returned twice.

    `pairs` are those of the corpus that this is a sample of, if it is one.
    """
    sources, targets, pairs = corpus.source, corpus.target, pairs or len(corpus)
    if text.placeholders:
        masked = Placeholders(text.placeholders).masked
        sources, targets = list(map(masked, sources)), list(map(masked, targets, sources))
    if text.joint:
        codec = train_codec([*sources, *targets], pairs, text, text.source_language)
        return codec, codec
    source = train_codec(sources, pairs, text, text.source_language)
    return source, train_codec(targets, pairs, text, text.target_language)
