"""A front end: what a line of a file is to a model, on one side of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from io import BufferedReader
from os import getcwd
from os.path import exists, expanduser, isabs
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from seq2seq_attn.corpora.display import Display, picture_of
from seq2seq_attn.corpora.encoded import Item, Items
from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.unknown_words import ReadAs, UnknownCount
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import open_file
from seq2seq_attn.strict.tagged import Tagged

_Value = TypeVar("_Value")

Sizes = int | tuple[Any, ...]  # of a front end: a number, or one for each of its parts
LEARNED_FROM = 1000  # lines at most that name recordings or images, whose statistics are learned

Words = Callable[[str], Sequence[str]]  # the words of a source line that is not blank


class FrontEnd(ABC):
    """Makes a model's input of the lines of one side of the data.

    A line is a sentence (`Codec`), or it names what is read: the path of a recording, an image or an array. So corpora,
    the command line and the API are the same for any source, with one line for each. A front end of your own defines
    `encode`, `collate`, `size` and `rules`; its configuration (`FrontEndConfig`) builds it.
    """

    marks: int = 0  # positions that `encode` adds to those of the line: 1 for `</s>`
    names_files: bool = True  # whether a line is the path of what is read, so that the file is a part of the data
    has_tabs: bool = False  # whether a TAB within a line separates parts of the source

    @property
    @abstractmethod
    def size(self) -> Sizes:
        """What the encoder is built with: the size of the vocabulary, or the features of a position."""

    @property
    def size_in_words(self) -> str:
        """The size, with what is counted."""
        return f"{self.size:,} features"

    @abstractmethod
    def encode(self, line: str) -> Item:
        """The item of a line that is not blank: token ids, or an array whose first axis is the positions.

        Raises:
            UserError: What the line names cannot be read; the message begins with the line.
        """

    @abstractmethod
    def collate(self, items: Items) -> Source:
        """The batch of these items, on the CPU; `corpora.encoded.padded` pads them to the longest."""

    def given(self, source: str) -> FrontEnd:
        """The front end of a target with this source; itself, unless it shows text of the source in its lines."""
        return self

    def labels(self, line: str) -> list[str]:
        """What to call each position of the item in a picture of attention; by default its number, from 1."""
        return [str(number) for number in range(1, len(self.encode(line)) + 1)]

    def display(self, line: str) -> Display | None:
        """What the source of a line looks and sounds like; by default a picture of an item that is an array (L, F)."""
        item = self.encode(line) if self.names_files else ()
        return Display(picture_of(np.asarray(item))) if np.ndim(item) == 2 else None

    def words(self, line: str) -> list[str]:
        """The units that alignments refer to by their indices; by default every position is one."""
        return self.labels(line)

    def word_indices(self, line: str) -> list[int]:
        """For each position, `marks` left out, the index of its word among `words`."""
        return list(range(len(self.encode(line))))

    def length(self, item: Item) -> int:
        """The positions of an item, `marks` left out."""
        return len(item) - self.marks

    def unknown_words(self, line: str) -> list[str]:
        """The words of a line that this front end does not know; none unless a vocabulary limits it."""
        return []

    def read_as(self, line: str) -> list[ReadAs]:
        """The words of a line that are read otherwise than they are written; none unless a vocabulary limits it."""
        return []

    def count_unknown(self, lines: Iterable[str]) -> UnknownCount:
        """How many of the words of these lines are unknown."""
        return UnknownCount(0, 0)

    def cut(self, item: Any, limit: int) -> Any:
        """The first `limit` positions of an item, or of its labels, and its marks."""
        return item[:limit]

    def items(self, lines: Iterable[str]) -> Iterator[Item]:
        """The item of each line; that of a blank line is empty."""
        return (self.encode(line) if line.strip() else [] for line in lines)

    def files(self, side: str) -> dict[str, bytes]:
        """What was learned from the training lines, as files of a run, which `FrontEndConfig.load` reads; none."""
        return {}

    def difference(self, other: FrontEnd) -> str | None:
        """In words, why the same line may be another item to `other`; None if it cannot."""
        own, others = self.rules(), other.rules()
        return None if type(self) is type(other) and own == others else "front ends that differ"

    @abstractmethod
    def rules(self) -> Any:
        """All that decides what a line becomes: options, and what was learned, in values that compare and print."""


class FrontEndConfig(Tagged):
    """The configuration of the front end of a source that is not text: `source: {kind: frames, ...}`.

    Every kind has a subclass with its own options, in a file that `--plugin` names, or named by it:
    `source: {kind: my_frames.py:FramesConfig}`.
    """

    kind: str

    makes: ClassVar[type | None] = None  # the batches, as `EncoderConfig.reads`; None: of a class of its own
    is_text: ClassVar[bool] = False  # whether lines are text, in which links can count words
    unit: ClassVar[str] = "positions"  # what the length of a source is counted in, in the plural

    @property
    def source_files(self) -> int:
        """The number of files that a source may have, whose lines i are joined by TABs."""
        return 1

    def completed(self, text: Any) -> FrontEndConfig:
        """The configuration with what it leaves out taken from the options under `text`."""
        return self

    def words(self, lines: Iterable[str]) -> Words:
        """As `FrontEnd.words` of what `build` makes of these lines, which are read only if that depends on them."""
        return self.build(list(lines)).words

    @abstractmethod
    def build(self, lines: Sequence[str]) -> FrontEnd:
        """The front end, which may learn from the source lines of the training pairs.

        Raises:
            UserError: There is nothing to learn from.
        """

    def load(self, folder: Path, side: str) -> FrontEnd:
        """The front end of a run, from the `files` in its folder; one that learned nothing is built again."""
        return self.build(())


def open_named(line: str) -> AbstractContextManager[BufferedReader]:
    """Opens the file that a line names. UserError as in `open_file`, with the way to write the path that is a file."""
    if exists(line):
        return open_file(line)
    meant = expanduser(line.strip().strip("\"'").replace("\\", "/"))
    if exists(meant):
        raise UserError(f"{line}: no such file; write the path as {meant}")
    return open_file(line, "" if isabs(line) else f"; the path is relative to the current folder, {getcwd()}")


def read_sample(read: Callable[[str], _Value], lines: Sequence[str]) -> Iterator[_Value]:
    """What is read of the lines that are not blank, or of `LEARNED_FROM` of them, evenly spaced; errors as `numbered`.

    So statistics of recordings or images are learned in bounded time.
    """
    filled = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    for number, line in filled[:: -(-len(filled) // LEARNED_FROM) or 1]:
        yield from numbered(map(read, [line]), first=number)


def numbered(values: Iterable[_Value], place: str = "", first: int = 1) -> Iterator[_Value]:
    """The values, each of which is made of a line when it is taken; a UserError gets the number of its line."""
    number = first
    try:
        for value in values:
            yield value
            number += 1
    except UserError as error:
        raise UserError(f"{place}line {number}: {error}") from None
