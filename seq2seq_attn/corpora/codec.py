"""Text to ids and back: one tokenizer and one vocabulary for one side of a corpus, saved and loaded."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import NonNegativeInt, TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.corpora.copy_slots import SlotVocabulary
from seq2seq_attn.corpora.encoded import Items
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.corpora.placeholders import Placed, Placeholders
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.corpora.tokenizers import TOKENIZERS, Tokenizer, word_of_character
from seq2seq_attn.corpora.unknown_words import ReadAs, Spellings, UnknownCount, known_forms, stand_in
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.files.json_files import STRICT, load_record
from seq2seq_attn.files.reading import read_bytes
from seq2seq_attn.files.writing import write_bytes

_SUGGESTED = 20  # words of a line for which others are suggested, so that no input takes long


class ChangedLine(NamedTuple):
    """A line, what it is after it has been encoded and decoded, and whether there are unknown tokens in it."""

    line: str
    decoded: str
    has_unknown: bool


@dataclass(frozen=True, config=STRICT)
class _Record:
    """What `SIDE.tokenizer.json` holds: the arguments of the tokenizer, some of them in files of their own."""

    kind: Literal["word", "moses", "character", "sentencepiece"]
    options: dict[str, str | list[str]]
    files: list[Literal["model"]]
    lowercase: bool
    match_known_forms: bool = False
    placeholders: list[str] = field(default_factory=list)
    copy_slots: NonNegativeInt = 0


_RECORD = TypeAdapter(_Record)


class Codec(FrontEnd):
    """The front end of text: encodes a line as ids that end in `</s>`, and decodes ids to a line.

    `lowercase` lowercases a line before it is tokenized. With `match_known_forms`, a piece outside the vocabulary is
    read in a form that is in it, see `known_forms`. With `placeholders` or `copy_slots`, a line is that of a source; a
    target is encoded and decoded `given` its source.
    """

    marks = 1  # `</s>`
    names_files = False

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        lowercase: bool = False,
        match_known_forms: bool = False,
        placeholders: Sequence[str] = (),
        copy_slots: int = 0,
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = SlotVocabulary(vocabulary, copy_slots) if copy_slots else vocabulary
        self.lowercase = lowercase
        self.match_known_forms = match_known_forms
        self.placeholders = Placeholders(placeholders)
        self._values: dict[str, str] | None = None  # of the source that is given

    def given(self, source: str | Sequence[str]) -> Codec:
        """This codec for a target with this source, whose text its placeholders and copy slots stand for.

        The placeholders of a source that is a list of tokens stand for nothing.
        """
        if not (self.vocabulary.slots or self.placeholders.given):
            return self
        codec = copy.copy(self)
        codec.vocabulary = self.vocabulary.of_source(self.pieces(source) if isinstance(source, str) else source)
        if isinstance(source, str):
            codec._values = self.placeholders.values(source)
        return codec

    def _parts(self, line: str) -> list[tuple[int, str]]:
        """The line as `Placeholders.parts`."""
        if not self.placeholders.given:
            return [(0, line)]
        values = self.placeholders.values(line) if self._values is None else self._values
        return list(self.placeholders.parts(line, values))

    def _masked(self, line: str) -> str:
        """The line with symbols in place of what is put aside."""
        return "".join(text for _, text in self._parts(line))

    def _prepared(self, line: str) -> str:
        """The line as it is tokenized."""
        return self._cased(self._masked(line))

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    @property
    def size_in_words(self) -> str:
        return f"{self.size:,} tokens"

    def collate(self, items: Items) -> Tokens:
        return pad(items)

    def labels(self, line: str) -> list[str]:
        """The pieces of a line, `PIECE (<unk>)` for one that is not in the vocabulary, and `</s>`."""
        pieces = self.pieces(line)
        ids = self.vocabulary.lookup_indices(pieces)
        labels = [piece if each > EOS else stand_in(piece) for piece, each in zip(pieces, ids, strict=True)]
        return [*labels, SPECIALS[EOS]]

    def words(self, line: str) -> list[str]:
        return line.split()

    def cut(self, item: list[Any], limit: int) -> list[Any]:
        """The first `limit` tokens of a sentence, and `</s>`."""
        return item if len(item) - 1 <= limit else [*item[:limit], item[-1]]

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line, those outside the vocabulary included."""
        return self._known(self.tokenizer.encode(self._prepared(line)))

    def written(self, line: str) -> list[str]:
        """The pieces of a line before `lowercase`; those after it where it changes more than their case."""
        pieces = self.pieces(line)
        written = self._known(self.tokenizer.encode(self._masked(line)))
        same = [piece.lower() for piece in written] == [piece.lower() for piece in pieces]
        return written if same else pieces

    def read(self, line: str) -> str:
        """A source without what is put aside, and without protected symbols."""
        return self.tokenizer.without_symbols(self.placeholders.read(line))

    def word_indices(self, line: str) -> list[int]:
        """For each piece, the index of the whitespace-separated word of the line that it comes from."""
        prepared = self._prepared(line)
        indices = self.tokenizer.word_indices(prepared)
        if self.match_known_forms:
            pieces = zip(indices, self.tokenizer.encode(prepared), strict=True)
            indices = [index for index, piece in pieces for _ in known_forms(piece, self.vocabulary)]
        return self._words_before(line, indices) if self.placeholders.given else indices

    def _words_before(self, line: str, indices: Sequence[int]) -> list[int]:
        """The words of a line that begin with these words of its parts, where symbols stand for text with blanks."""
        words, parts = word_of_character(line), self._parts(line)
        starts = (
            start if number % 2 else start + offset  # the symbols are those with odd numbers
            for number, (start, text) in enumerate(parts)
            for offset in range(len(text))
        )
        first: dict[int, int] = {}
        for word, start in zip(word_of_character("".join(text for _, text in parts)), starts, strict=True):
            first.setdefault(word, words[start])
        return [first[index] for index in indices]

    def unknown_words(self, line: str) -> list[str]:
        """The whitespace-separated words of the line, in order, of which a piece is not in the vocabulary.

        So a word of a source is unknown though it can be copied; in a target that is `given` its source, it is not.
        """
        ids = self.vocabulary.lookup_indices(self.pieces(line))
        if min(ids, default=EOS) > EOS:
            return []
        unknown = {word for word, index in zip(self.word_indices(line), ids, strict=True) if index <= EOS}
        words = line.split()
        return [words[index] for index in sorted(unknown)]

    def read_as(self, line: str) -> list[ReadAs]:
        """The words of a line that are read in another form than they are written in, or as `<unk>`.

        Where a token is a word, those that are spelled like an unknown one are suggested, for the first words.
        """
        as_written = copy.copy(self)
        as_written.match_known_forms = False
        words, written = line.split(), dict(as_written._pieces_of_words(line))
        found = list[ReadAs]()
        for index, pieces in self._pieces_of_words(line):
            ids = self.vocabulary.lookup_indices(pieces)
            tokens = tuple(piece if each > EOS else SPECIALS[UNK] for piece, each in zip(pieces, ids, strict=True))
            if tokens != written[index]:
                unknown = [piece for piece, token in zip(pieces, tokens, strict=True) if token != piece]
                near = self._suggestions(words[index], unknown) if len(found) < _SUGGESTED else ()
                found.append(ReadAs(words[index], index, tokens, near))
        return found

    def _pieces_of_words(self, line: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The number of each word of a line, and its pieces."""
        pairs = zip(self.word_indices(line), self.pieces(line), strict=True)
        for index, group in groupby(pairs, key=itemgetter(0)):
            yield index, tuple(piece for _, piece in group)

    def _suggestions(self, word: str, unknown: Sequence[str]) -> tuple[str, ...]:
        """What could stand in place of a word with these unknown pieces: its known form, then words spelled like it."""
        if self.tokenizer.kind not in ("word", "moses") or not unknown:
            return ()
        known = known_forms(word, self.vocabulary)
        found = [" ".join(known)] if known != [word] and all(each in self.vocabulary for each in known) else []
        for piece in unknown:
            near = self._spellings.near(piece)
            found += [word.replace(piece, each, 1) if piece in word else each for each in near]
        return tuple(dict.fromkeys(found))

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self.vocabulary)

    def count_unknown(self, lines: Iterable[str], sources: Iterable[str] | None = None) -> UnknownCount:
        """How many of the whitespace-separated words of these lines, of targets with their sources, are unknown."""
        pairs = (
            ((self, line) for line in lines) if sources is None else zip(map(self.given, sources), lines, strict=True)
        )
        return UnknownCount.total((len(codec.unknown_words(line)), len(line.split())) for codec, line in pairs)

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces, then `</s>`.

        `<unk>` in a line is the unknown token. A piece that is spelled like another special token is ordinary text and
        therefore unknown: `</s>` in a file does not end a sentence.
        """
        return self._ids(self.pieces(line))

    def items(self, lines: Iterable[str], sources: Iterable[str] | None = None) -> Iterator[list[int]]:
        """The ids of each line, of targets with their sources; none of a blank line."""
        codecs = repeat(self) if sources is None else map(self.given, sources)
        return (codec.encode(line) if line.strip() else [] for line, codec in zip(lines, codecs, strict=False))

    def spellings(self, phrase: str) -> list[list[int]]:
        """The sequences of token ids, `</s>` left out, that are decoded to a phrase; none if a piece is unknown."""
        pieces = self.pieces(phrase)
        if not all(piece in self.vocabulary for piece in pieces):
            return []
        return [self._ids(each)[:-1] for each in self.tokenizer.spellings(pieces, self.vocabulary)]

    def within(self, phrase: str) -> list[int]:
        """The ids of a phrase, `</s>` left out, inside a sentence of a script without spaces (`Tokenizer.within`)."""
        return self._ids(self.tokenizer.within(self.pieces(phrase), self.vocabulary))[:-1]

    @cached_property
    def begins_word(self) -> list[bool]:
        """For each token, whether it begins a word, or stands between words."""
        return [not self.tokenizer.continues_word(token) for token in self.vocabulary.get_itos()]

    def sample(
        self, lines: Sequence[str], alpha: float, random: np.random.Generator, sources: Sequence[str] | None = None
    ) -> Iterable[list[int]]:
        """As `encode` for each line, but in a segmentation drawn at random (`SentencePiece.sample`).

        Targets come with their sources.
        """
        codecs = repeat(self, len(lines)) if sources is None else map(self.given, sources)
        prepared = [codec._prepared(line) for codec, line in zip(codecs, lines, strict=True)]
        drawn = self.tokenizer.sample(prepared, alpha, random)
        return (self._ids(self._known(pieces)) for pieces in drawn)

    def _known(self, pieces: list[str]) -> list[str]:
        if not self.match_known_forms:
            return pieces
        return [form for piece in pieces for form in known_forms(piece, self.vocabulary)]

    def _ids(self, pieces: list[str]) -> list[int]:
        ids = self.vocabulary.of_source(pieces).lookup_indices(pieces)
        return [index if index >= len(SPECIALS) else UNK for index in ids] + [EOS]

    def decode(self, ids: Sequence[int], unknown: Iterable[str] = ()) -> str:
        """The line up to the first `</s>`, without `<s>` and `<pad>`; an unknown token is shown as `<unk>`.

        The strings in `unknown` are shown instead, the first for the first unknown token.
        """
        ids = list(ids)
        end = ids.index(EOS) if EOS in ids else len(ids)
        shown = [index for index in ids[:end] if index == UNK or index >= len(SPECIALS)]
        instead = iter(unknown)
        pieces = self.vocabulary.lookup_tokens(shown)
        return self.text(
            [next(instead, piece) if index == UNK else piece for index, piece in zip(shown, pieces, strict=True)]
        )

    def text(self, pieces: list[str]) -> str:
        """The line that pieces form, with what the symbols in it stand for if the source is `given`."""
        text = self.tokenizer.decode(pieces)
        return text if self._values is None else self.placeholders.restored(text, self._values)

    def placed(self, source: str, ids: Sequence[int]) -> tuple[Placed, ...]:
        """How often each placeholder is in a source and in the ids of its translation; none without `placeholders`."""
        return self.placeholders.placed(source, self.vocabulary.lookup_tokens(ids)) if self.placeholders.given else ()

    def changes(self, lines: Iterable[str]) -> Iterator[ChangedLine]:
        """The lines that are not as before when they are encoded and decoded, apart from `lowercase`."""
        for line in filter(str.strip, map(self._cased, lines)):
            codec = self.given(line)
            ids = codec.encode(line)
            if (decoded := codec.decode(ids)) != line:
                yield ChangedLine(line, decoded, UNK in ids)

    def difference(self, other: FrontEnd) -> str | None:
        """In words, why the same ids may be other text to `other`, or the same text other ids; None if they cannot."""
        if isinstance(other, Codec) and self.vocabulary.get_itos() != other.vocabulary.get_itos():
            return f"vocabularies of {self.size:,} and {other.size:,} tokens that differ"
        return None if self.rules() == other.rules() else "tokenizers that differ"

    def rules(self) -> tuple[Any, ...]:
        options = self.tokenizer.options(), self.lowercase, self.match_known_forms, self.placeholders.given
        return self.tokenizer.kind, *options, self.vocabulary.get_itos()

    def _cased(self, line: str) -> str:
        return self.tokenizer.lowercase(line) if self.lowercase else line

    def files(self, side: str) -> dict[str, bytes]:
        """The content of `SIDE.tokenizer.json`, `SIDE.vocabulary.txt` and, with sentencepiece, its `.model` file."""
        options = self.tokenizer.options()
        files = {name: value for name, value in options.items() if isinstance(value, bytes)}
        record = _RECORD.validate_python(
            {
                "kind": self.tokenizer.kind,
                "options": {name: value for name, value in options.items() if name not in files},
                "files": list(files),
                "lowercase": self.lowercase,
                "match_known_forms": self.match_known_forms,
                "placeholders": list(self.placeholders.given),
                "copy_slots": self.vocabulary.slots,
            }
        )
        left_out = {name for name in ("placeholders", "copy_slots") if not getattr(record, name)}
        return {
            **{f"{side}.{self.tokenizer.kind}.{name}": content for name, content in files.items()},
            f"{side}.vocabulary.txt": self.vocabulary.content(),
            f"{side}.tokenizer.json": _RECORD.dump_json(record, indent=2, exclude=left_out) + b"\n",
        }

    @classmethod
    def load(cls, folder: Path, side: str) -> Codec:
        """Read its `files`. Raises UserError, with the file's name, if a file is missing, invalid or damaged."""
        path = checked(folder, f"{side}.tokenizer.json")
        record = load_record(_RECORD, path, "restore it, or train the run again")
        files = {name: checked(folder, f"{side}.{record.kind}.{name}") for name in record.files}
        try:
            given: dict[str, Any] = record.options | {name: read_bytes(each) for name, each in files.items()}
            tokenizer = TOKENIZERS[record.kind](**given)
            Placeholders(record.placeholders)
        except (ValueError, TypeError) as error:
            named = next(iter(files.values()), path)
            raise UserError(f"{named}: not a valid tokenizer: {error}; restore it, or train the run again") from None
        vocabulary = Vocabulary.load(checked(folder, f"{side}.vocabulary.txt"))
        options = record.lowercase, record.match_known_forms, record.placeholders, record.copy_slots
        return cls(tokenizer, vocabulary, *options)


def front_end_files(source: FrontEnd, target: FrontEnd) -> dict[str, bytes]:
    """The files of both sides, `source.*` and `target.*`; one codec for both is stored once, as `joint.*`."""
    return source.files("joint") if source is target else source.files("source") | target.files("target")


def save_front_ends(source: FrontEnd, target: FrontEnd, folder: Path) -> None:
    """Writes the `front_end_files`."""
    for name, content in front_end_files(source, target).items():
        write_bytes(folder / name, content)


def load_codecs(folder: Path) -> tuple[Codec, Codec]:
    """Source and target codec of the run of a text-to-text model; the same object twice if they are joint."""
    if (folder / "joint.tokenizer.json").exists():
        joint = Codec.load(folder, "joint")
        return joint, joint
    return Codec.load(folder, "source"), Codec.load(folder, "target")
