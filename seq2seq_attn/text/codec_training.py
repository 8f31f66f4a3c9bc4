"""Tokenisers and vocabularies from the training text."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.character import Character
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.moses import Moses
from seq2seq_attn.text.sentencepiece import SentencePiece
from seq2seq_attn.text.tokeniser import Tokeniser
from seq2seq_attn.text.vocabulary import Vocabulary
from seq2seq_attn.text.word import Word

KINDS = ("word", "moses", "character", "bpe", "unigram")


def train_codecs(
    corpus: ParallelCorpus,
    kind: str = "bpe",
    *,
    vocabulary_size: int | None = None,
    joint: bool = False,
    minimum_frequency: int = 1,
    source_language: str = "en",
    target_language: str = "en",
    lowercase: bool = False,
    character_coverage: float = 1.0,
    normalisation: str = "nmt_nfkc",
) -> tuple[Codec, Codec]:
    """The codecs of both sides, learnt from a training corpus; with `joint` one codec, the same object twice.

    `vocabulary_size` counts the special tokens and is that of each vocabulary: `bpe` and `unigram` reach it
    exactly and demand it, for the others it is the most that is kept. `minimum_frequency` is for the others
    alone; the languages are for `moses`, `character_coverage` and `normalisation` for `bpe` and `unigram`.
    """
    if joint and kind == "moses" and source_language != target_language:
        raise UserError(
            f"joint moses tokeniser for {source_language} and {target_language}: its rules are those of one "
            f"language; use bpe or unigram, or joint: false"
        )

    def trained(lines: Sequence[str], language: str) -> Codec:
        lines = [line.lower() for line in lines] if lowercase else lines
        if kind in ("bpe", "unigram"):
            if vocabulary_size is None:
                raise UserError(f"{kind} needs a vocabulary size, for example 8000")
            if minimum_frequency != 1:
                raise UserError(
                    f"minimum frequency {minimum_frequency}: {kind} chooses its pieces by the vocabulary "
                    f"size alone; leave it at 1"
                )
            pieces = SentencePiece.train(
                lines,
                vocabulary_size,
                kind,
                character_coverage=character_coverage,
                normalisation=normalisation,
            )
            return Codec(pieces, pieces.vocabulary(), lowercase)
        tokeniser = _tokeniser(kind, language)
        vocabulary = Vocabulary.build(map(tokeniser.encode, lines), vocabulary_size, minimum_frequency)
        return Codec(tokeniser, vocabulary, lowercase)

    if joint:
        codec = trained([*corpus.source, *corpus.target], source_language)
        return codec, codec
    return trained(corpus.source, source_language), trained(corpus.target, target_language)


def _tokeniser(kind: str, language: str) -> Tokeniser:
    if kind == "word":
        return Word()
    if kind == "moses":
        return Moses(language)
    if kind == "character":
        return Character()
    raise UserError(f"tokeniser {kind!r}: there is {', '.join(KINDS)}")
