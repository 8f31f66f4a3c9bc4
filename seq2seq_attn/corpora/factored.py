"""A source of words with factors, such as parts of speech: one of each kind for every word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.encoded import Item, Items
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig, Words, numbered
from seq2seq_attn.corpora.learning import train_codec
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.corpora.text_config import TextConfig, of_source, refuse_of_both_sides
from seq2seq_attn.corpora.unknown_words import UnknownCount
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.checksums import checked


class FactoredTokens(Tokens):
    """A batch of sentences whose `tokens` (B, L, 1 + F) are the ids of a piece, and of the F factors of its word."""


class Factored(FrontEnd):
    """The front end of words with F factors: `dog|NOUN runs|VERB`, or columns with a TAB between.

    Every piece of a word has the factors of the word; `</s>` has itself as its factors.
    """

    marks = 1  # `</s>`
    names_files = False
    has_tabs = True

    def __init__(self, codec: Codec, factors: Sequence[Vocabulary], separator: str) -> None:
        self.codec, self.factors, self.separator = codec, tuple(factors), separator

    @property
    def size(self) -> tuple[int, ...]:
        """That of the vocabulary, then the number of values of each factor; special tokens included."""
        return self.codec.size, *map(len, self.factors)

    @property
    def size_in_words(self) -> str:
        return f"{self.codec.size_in_words}, factors of {' and '.join(str(len(each)) for each in self.factors)} values"

    def split(self, line: str) -> list[list[str]]:
        """The words of a line, then the values of each factor, one for each word. UserError: there are others."""
        return split(line, len(self.factors), self.separator)

    def encode(self, line: str) -> Item:
        """The ids (L, 1 + F) of a line's pieces with their factors, then `</s>`."""
        words, *factors = self.split(line)
        text = " ".join(words)
        word_of = self.codec.word_indices(text)
        ids = [_factor_ids(known, values) for known, values in zip(self.factors, factors, strict=True)]
        of_pieces = ([*(each[word] for word in word_of), EOS] for each in ids)
        return np.stack([self.codec.encode(text), *of_pieces], axis=1).astype(np.int32)

    def collate(self, items: Items) -> FactoredTokens:
        return FactoredTokens(*pad(items))

    def labels(self, line: str) -> list[str]:
        """The pieces of a line with the factors of their words, and `</s>`."""
        words, *factors = self.split(line)
        text = " ".join(words)
        pieces = zip(self.codec.pieces(text), self.codec.word_indices(text), strict=True)
        return [
            *(self.separator.join([piece, *(each[word] for each in factors)]) for piece, word in pieces),
            SPECIALS[EOS],
        ]

    def words(self, line: str) -> list[str]:
        return self.split(line)[0]

    def word_indices(self, line: str) -> list[int]:
        return self.codec.word_indices(" ".join(self.words(line)))

    def unknown_words(self, line: str) -> list[str]:
        """The words of the line, with their factors, of which a piece or a factor is read as `<unk>`."""
        ids = np.asarray(self.encode(line))
        unknown = {word for word, row in zip(self.word_indices(line), ids, strict=False) if UNK in row}
        tokens = [self.separator.join(parts) for parts in zip(*self.split(line), strict=True)]
        return [tokens[word] for word in sorted(unknown)]

    def count_unknown(self, lines: Iterable[str]) -> UnknownCount:
        """How many of the words of these lines, or their factors, are unknown."""
        filled = filter(str.strip, lines)
        return UnknownCount.total((len(self.unknown_words(line)), len(self.words(line))) for line in filled)

    def cut(self, item: Any, limit: int) -> Any:
        """The first `limit` tokens of a sentence, and `</s>`."""
        return self.codec.cut(item, limit)

    def files(self, side: str) -> dict[str, bytes]:
        """Those of the words, and `SIDE.factor-K.txt`, the values of factor K from 1."""
        factors = {f"{side}.factor-{number}.txt": each.content() for number, each in enumerate(self.factors, start=1)}
        return self.codec.files(side) | factors

    def rules(self) -> Any:
        return self.codec.rules(), [each.get_itos() for each in self.factors], self.separator


def split(line: str, count: int, separator: str) -> list[list[str]]:
    """The words of a line, then the values of each of `count` factors, one for each word.

    UserError: there are more or fewer, or one is empty.
    """
    if "\t" in line:
        words, *factors = (column.split() for column in line.split("\t"))
        if len(factors) != count:
            raise UserError(
                f"{shown(line)}: after the words, {len(factors)} columns with TABs between, and source.factors={count}"
            )
        for number, values in enumerate(factors, start=1):
            if len(values) != len(words):
                raise UserError(
                    f"{shown(line)}: {len(words)} words, and {len(values)} values of factor {number}; give one for "
                    f"every word"
                )
        return [words, *factors]
    tokens = [token.split(separator) for token in line.split()]
    for token in tokens:
        if len(token) != count + 1 or not all(token):
            raise UserError(
                f"{shown(separator.join(token))} is not a word with source.factors={count} and {separator!r} before "
                f"each; choose a source.separator that is in none of them"
            )
    return [list(column) for column in zip(*tokens, strict=True)] or [[] for _ in range(count + 1)]


def _factor_ids(known: Vocabulary, values: Sequence[str]) -> NDArray[np.int64]:
    ids = np.array(known.lookup_indices(values), dtype=np.int64)
    return np.where(ids < len(SPECIALS), UNK, ids)  # a value that is spelled like a special token is an unknown one


class FactoredConfig(FrontEndConfig):
    """`{kind: factored, factors: 2}`: words with two factors each, `dog|NOUN|sg runs|VERB|sg`.

    With a file for each, `data.train: {source: [words, tags, numbers], ...}`, all have as many words in line i.
    """

    kind: Literal["factored"] = "factored"

    makes: ClassVar[type] = FactoredTokens
    is_text: ClassVar[bool] = True
    unit: ClassVar[str] = "words"

    factors: Annotated[int, Field(ge=1, le=64)] = 1  # of each word
    separator: str = "|"  # between a word and its factors; with files of their own there is none
    text: TextConfig | None = None  # how the words are tokenized; null: as under `text`

    _has_its_own_options = field_validator("text")(refuse_of_both_sides)

    @field_validator("separator")
    @classmethod
    def _separates(cls, separator: str) -> str:
        if not separator or any(each.isspace() for each in separator):
            raise ValueError(f"{separator!r} is empty or has white space, which separates words; choose another one")
        return separator

    @property
    def source_files(self) -> int:
        return 1 + self.factors

    def completed(self, text: TextConfig) -> FactoredConfig:
        return self if self.text is not None else self.model_copy(update={"text": of_source(text)})

    def words(self, lines: Iterable[str]) -> Words:
        return lambda line: split(line, self.factors, self.separator)[0]

    def build(self, lines: Sequence[str]) -> Factored:
        found = numbered(split(line, self.factors, self.separator) for line in lines)
        words, *factors = zip(*found, strict=True)
        text = self.text or TextConfig()
        codec = train_codec([" ".join(each) for each in words], len(lines), text, text.source_language)
        return Factored(codec, [Vocabulary.build(each) for each in factors], self.separator)

    def load(self, folder: Path, side: str) -> Factored:
        numbers = range(1, self.factors + 1)
        factors = [Vocabulary.load(checked(folder, f"{side}.factor-{number}.txt")) for number in numbers]
        return Factored(Codec.load(folder, side), factors, self.separator)
