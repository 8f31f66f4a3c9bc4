"""Several sources of one translation, such as a sentence in two languages, or a lemma and the features of its form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, field_validator
from torch import Tensor

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.encoded import Items
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig, Words, numbered
from seq2seq_attn.corpora.learning import train_codec
from seq2seq_attn.corpora.source import Tokens, pad, token_mask
from seq2seq_attn.corpora.text_config import TextConfig, of_source, refuse_of_both_sides
from seq2seq_attn.corpora.unknown_words import UnknownCount
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS
from seq2seq_attn.errors import UserError, shown

END = SPECIALS[EOS]


class Sources(NamedTuple):
    """A batch of translations' sources, n for each: one after the other, each with its `</s>`, padded on the right."""

    tokens: Tensor  # (B, L) int64
    lengths: Tensor  # (B,) int64, on the CPU: of all n together
    each: Tensor  # (B, n) int64, on the CPU: of each, `</s>` included

    @property
    def is_token(self) -> Tensor:
        """(B, L) bool, True at tokens, False on padding."""
        return token_mask(self.lengths, self.tokens)

    def to(self, device: torch.device | str) -> Sources:
        """The record with its tokens on the device; the lengths stay on the CPU, where packing needs them."""
        return self._replace(tokens=self.tokens.to(device, non_blocking=True))

    def select(self, rows: Tensor) -> Sources:
        """The record with only these rows (M,), in this order, padded to the longest of them."""
        lengths = self.lengths[rows]
        return Sources(self.tokens[rows.to(self.tokens.device), : int(lengths.max())], lengths, self.each[rows])

    def parts(self) -> list[Tokens]:
        """The first source of every row, the second, and so on, each padded to its longest."""
        found, ends = [], self.each.cumsum(dim=1)
        for lengths, end in zip(self.each.unbind(dim=1), ends.unbind(dim=1), strict=True):
            places = torch.arange(int(lengths.max())) + (end - lengths)[:, None]
            places = places.minimum(end[:, None] - 1).to(self.tokens.device, non_blocking=True)
            found.append(Tokens(self.tokens.gather(1, places), lengths))
        return found

    def places(self) -> Tensor:
        """(B, L) int64: where each token is among the `parts`, one after the other with their padding."""
        ends, widths = self.each.cumsum(dim=1), self.each.amax(dim=0)
        shifts = (widths.cumsum(dim=0) - widths) - (ends - self.each)  # (B, n)
        positions = torch.arange(self.tokens.shape[1])
        part = (positions[:, None] >= ends[:, None]).sum(dim=2).clamp_max(self.each.shape[1] - 1)
        places = (positions + shifts.gather(1, part)).clamp_max(int(widths.sum()) - 1)
        return places.to(self.tokens.device, non_blocking=True)


class MultiSource(FrontEnd):
    """The front end of n texts: a line has a TAB between two of them, any of which may be blank, but not all.

    Each has its own codec, or all have the same object. The tokens of all are one sequence. A `</s>` after another text
    than the last is a word of its own.
    """

    marks = 1  # the last `</s>`
    names_files = False
    has_tabs = True

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.codecs = tuple(codecs)

    @property
    def size(self) -> tuple[int, ...]:
        """Those of the vocabularies."""
        return tuple(codec.size for codec in self.codecs)

    @property
    def size_in_words(self) -> str:
        return " and ".join(dict.fromkeys(codec.size_in_words for codec in self.codecs))

    def texts(self, line: str) -> list[tuple[Codec, str]]:
        """The texts of a line, each with its codec. UserError: there are more or fewer."""
        return list(zip(self.codecs, columns(line, len(self.codecs)), strict=True))

    def encode(self, line: str) -> list[int]:
        """The ids of the texts, each of which ends in `</s>`."""
        return [token for codec, text in self.texts(line) for token in codec.encode(text)]

    def collate(self, items: Items) -> Sources:
        tokens, lengths = pad(items)
        ends = (tokens == EOS).nonzero()[:, 1].view(len(lengths), len(self.codecs))
        return Sources(tokens, lengths, ends.diff(dim=1, prepend=ends.new_full((len(ends), 1), -1)))

    def labels(self, line: str) -> list[str]:
        """The pieces of the texts, each followed by `</s>`."""
        return [label for codec, text in self.texts(line) for label in codec.labels(text)]

    def words(self, line: str) -> list[str]:
        """The words of the texts, with `</s>` between two of them."""
        return _words(columns(line, len(self.codecs)))

    def word_indices(self, line: str) -> list[int]:
        found: list[int] = []
        first = 0
        for codec, text in self.texts(line):
            count = len(codec.words(text))
            found += [*(first + word for word in codec.word_indices(text)), first + count]
            first += count + 1
        return found[:-1]

    def unknown_words(self, line: str) -> list[str]:
        return [word for codec, text in self.texts(line) for word in codec.unknown_words(text)]

    def count_unknown(self, lines: Iterable[str]) -> UnknownCount:
        return UnknownCount.total((len(self.unknown_words(line)), len(line.split())) for line in lines if line.strip())

    def cut(self, item: Any, limit: int) -> Any:
        """As many tokens as fit beside every `</s>`, the first ones."""
        if len(item) - self.marks <= limit:
            return item
        kept, room = [], limit + self.marks - len(self.codecs)
        for each in item:
            is_end = each in (EOS, END)
            if is_end or room > 0:
                kept.append(each)
            room -= not is_end
        return kept

    def files(self, side: str) -> dict[str, bytes]:
        """Those of each codec, with the sides `SIDE-1`, `SIDE-2`, ...; of one for all, with `SIDE`."""
        if len(set(self.codecs)) == 1:
            return self.codecs[0].files(side)
        numbers = enumerate(self.codecs, start=1)
        return {name: file for number, codec in numbers for name, file in codec.files(f"{side}-{number}").items()}

    def rules(self) -> Any:
        return [codec.rules() for codec in self.codecs]


def columns(line: str, count: int) -> list[str]:
    """The texts of a line between its TABs. UserError: there are more or fewer than `count`."""
    texts = line.split("\t") if line.strip() else [""] * count
    if len(texts) != count:
        raise UserError(f"{shown(line)}: {len(texts)} texts with TABs between, and this model has {count} sources")
    return texts


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in (*text.split(), END)][:-1]


class MultiSourceConfig(FrontEndConfig):
    """`{kind: multi_source, texts: [{tokenizer: character}, {tokenizer: word}]}`: two texts in every line.

    They come from two files, `data.train: {source: [lemmas, features], ...}`, or stand in one with a TAB between.
    """

    kind: Literal["multi_source"] = "multi_source"

    makes: ClassVar[type] = Sources
    is_text: ClassVar[bool] = True
    unit: ClassVar[str] = "words"

    texts: Annotated[tuple[TextConfig | None, ...], Field(min_length=2, max_length=16)] = (
        None,
        None,
    )  # null: as under `text`
    shared: bool = False  # one vocabulary, learned from all sources, with the options of the first

    @field_validator("texts")
    @classmethod
    def _have_their_own_options(cls, texts: tuple[TextConfig | None, ...]) -> tuple[TextConfig | None, ...]:
        return tuple(map(refuse_of_both_sides, texts))

    @property
    def source_files(self) -> int:
        return len(self.texts)

    def completed(self, text: TextConfig) -> MultiSourceConfig:
        filled = tuple(of_source(text) if each is None else each for each in self.texts)
        return self.model_copy(update={"texts": filled})

    def words(self, lines: Iterable[str]) -> Words:
        return lambda line: _words(columns(line, len(self.texts)))

    def build(self, lines: Sequence[str]) -> MultiSource:
        count = len(self.texts)
        found = numbered(columns(line, count) for line in lines)
        sides = [list(side) for side in zip(*found, strict=True)]
        if self.shared:
            sides = [[line for side in sides for line in side]]
        options = [each or TextConfig() for each in self.texts[: len(sides)]]
        codecs = [
            train_codec(side, len(lines), text, text.source_language) for side, text in zip(sides, options, strict=True)
        ]
        return MultiSource(codecs * count if self.shared else codecs)

    def load(self, folder: Path, side: str) -> MultiSource:
        numbers = range(1, len(self.texts) + 1)
        if self.shared:
            return MultiSource([Codec.load(folder, side)] * len(numbers))
        return MultiSource([Codec.load(folder, f"{side}-{number}") for number in numbers])
