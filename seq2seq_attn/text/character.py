"""Every character is a piece, the space a visible one, so that a line comes back exactly."""

from __future__ import annotations

from seq2seq_attn.text.tokeniser import Tokeniser, word_of_character

_SPACE = "▁"  # U+2581, as sentencepiece shows a space
_LITERAL = "▁▁"  # U+2581 standing in the text itself


class Character(Tokeniser):
    """Characters, the space as `▁`. `decode(encode(line)) == line` for every line that is not blank."""

    kind = "character"

    def encode(self, line: str) -> list[str]:
        if not line.strip():
            return []
        return [{" ": _SPACE, _SPACE: _LITERAL}.get(character, character) for character in line]

    def decode(self, pieces: list[str]) -> str:
        return "".join({_SPACE: " ", _LITERAL: _SPACE}.get(piece, piece) for piece in pieces)

    def word_indices(self, line: str) -> list[int]:
        return word_of_character(line) if line.strip() else []
