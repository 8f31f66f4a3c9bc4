"""What every tokeniser does: a line into pieces, pieces into a line, and which word each piece came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar


class Tokeniser(ABC):
    """Cuts a line into pieces and joins pieces to readable (detokenised) text. Immutable once made."""

    kind: ClassVar[str]  # its name in a run folder

    @abstractmethod
    def encode(self, line: str) -> list[str]:
        """The pieces of a line; none for a blank one."""

    @abstractmethod
    def decode(self, pieces: list[str]) -> str:
        """The line that the pieces make."""

    def word_indices(self, line: str) -> list[int]:
        """For each piece of `encode(line)`, the index of the whitespace-separated word that it came from.

        So attention between pieces becomes an alignment between words. Each piece is looked for in the line
        from where the one before it ended: right as long as the pieces hold the line's own characters, in
        their order. A tokeniser that rewrites characters overrides this.
        """
        words = word_of_character(line)
        indices: list[int] = []
        position = -1
        for piece in self.encode(line):
            for character in piece:
                found = line.find(character, position + 1)
                position = max(position, found)
            indices.append(words[position])
        return indices

    def options(self) -> dict[str, Any]:
        """The arguments that make this tokeniser again: values for JSON, or bytes for a file of their own."""
        return {}


def word_of_character(line: str) -> list[int]:
    """For each character of a line, the index of its whitespace-separated word.

    White space belongs to the word that it leads to, after the last word to that one.
    """
    words: list[int] = []
    begun, inside = 0, False
    for character in line:
        begun += not inside and not character.isspace()
        inside = not character.isspace()
        words.append(begun - 1 if inside else begun)
    return [min(word, max(begun - 1, 0)) for word in words]
