"""The simplest tokeniser: words are what white space separates. For text that is tokenised already."""

from __future__ import annotations

from seq2seq_attn.text.tokeniser import Tokeniser


class Word(Tokeniser):
    """Splits at white space, joins by one space."""

    kind = "word"

    def encode(self, line: str) -> list[str]:
        return line.split()

    def decode(self, pieces: list[str]) -> str:
        return " ".join(pieces)
