"""Subword pieces learnt from the training text: byte-pair encoding or a unigram language model."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.tokeniser import Tokeniser, word_of_character
from seq2seq_attn.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary


class SentencePiece(Tokeniser):
    """A trained sentencepiece model (Kudo & Richardson 2018); `model` is the content of its `.model` file.

    BPE after Sennrich et al. 2016, unigram after Kudo 2018. Pieces that open a word start with `▁`.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError(f"{len(model)} bytes are not a sentencepiece model") from None
        self.model = model

    @classmethod
    def train(
        cls,
        lines: Sequence[str],
        vocabulary_size: int,
        model: str = "bpe",
        *,
        character_coverage: float = 1.0,
        normalisation: str = "nmt_nfkc",
    ) -> SentencePiece:
        """Learn `vocabulary_size` pieces, the four special tokens included; equal lines give equal bytes.

        `model` is `bpe` or `unigram`. `character_coverage` is the share of the text's characters that must be
        pieces of their own; below 1 the rarest become `<unk>` (0.9995 suits Chinese). `normalisation` is
        sentencepiece's rule name: `nmt_nfkc` also turns full-width punctuation into ASCII, which Chinese
        targets do not want (`identity`). Raises UserError when the text cannot give that many pieces, or its
        characters need more.
        """
        if not any(line.strip() for line in lines):
            raise UserError(f"{model}: there is no text to learn pieces from ({len(lines)} lines, all blank)")
        trained = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=trained,
                model_type=model,
                vocab_size=vocabulary_size,
                character_coverage=character_coverage,
                normalization_rule_name=normalisation,
                unk_id=UNK,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_piece=SPECIALS[UNK],
                pad_piece=SPECIALS[PAD],
                bos_piece=SPECIALS[BOS],
                eos_piece=SPECIALS[EOS],
                num_threads=1,  # sums of floats depend on how many threads share them
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise UserError(_explained(str(error), model, vocabulary_size, len(lines))) from None
        return cls(trained.getvalue())

    def encode(self, line: str) -> list[str]:
        pieces: list[str] = self._processor.encode(line, out_type=str)
        return pieces

    def decode(self, pieces: list[str]) -> str:
        line: str = self._processor.decode(pieces)
        return line

    def word_indices(self, line: str) -> list[int]:
        """As `Tokeniser.word_indices`, by sentencepiece's own offsets: normalisation may rewrite the line."""
        words = word_of_character(line)
        pieces = self._processor.encode(line, out_type="immutable_proto").pieces
        # A piece never spans two words, and the white space before a word belongs to it: the start decides.
        return [words[piece.begin] for piece in pieces]

    def vocabulary(self) -> Vocabulary:
        """All pieces, under the ids that the model itself gives them."""
        size = self._processor.get_piece_size()
        return Vocabulary(self._processor.id_to_piece(index) for index in range(len(SPECIALS), size))

    def options(self) -> dict[str, Any]:
        return {"model": self.model}


def _explained(message: str, model: str, size: int, lines: int) -> str:
    """One line for the user from sentencepiece's own message, which names a line of C++ and a condition."""
    if most := re.search(r"value <= (\d+)", message):
        too_large = f"{model}: vocabulary size {size} is too large for {lines} lines"
        return f"{too_large}; set text.vocabulary_size to at most {most[1]}"
    if fewest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return f"{model}: vocabulary size {size} is too small: the characters alone need {fewest[1]}"
    return f"{model}: sentencepiece refuses: {' '.join(message.split())}"
