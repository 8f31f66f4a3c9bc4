"""Text to ids and back: one tokenizer and one vocabulary for one side of a corpus, trained, saved and loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.encoded import Items
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.corpora.tokenizers import Character, Moses, SentencePiece, Tokenizer, Word
from seq2seq_attn.corpora.unknown_words import UnknownCount, known_forms
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.files.json_files import STRICT, load_record
from seq2seq_attn.files.reading import read_bytes
from seq2seq_attn.files.writing import write_bytes

KINDS = ("word", "moses", "character", "bpe", "unigram")

_TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer for tokenizer in (Word, Moses, Character, SentencePiece)
}


class ChangedLine(NamedTuple):
    """A line, what it is after it has been encoded and decoded, and whether there are unknown tokens in it."""

    line: str
    decoded: str
    has_unknown: bool


@dataclass(frozen=True, config=STRICT)
class _Record:
    """What `SIDE.tokenizer.json` holds: the arguments of the tokenizer, some of them in files of their own."""

    kind: Literal["word", "moses", "character", "sentencepiece"]
    options: dict[str, str]
    files: list[Literal["model"]]
    lowercase: bool
    match_known_forms: bool = False


_RECORD = TypeAdapter(_Record)


class Codec(FrontEnd):
    """The front end of text: encodes a line as ids that end in `</s>`, and decodes ids to a line.

    `lowercase` lowercases a line before it is tokenized. With `match_known_forms`, a piece outside the vocabulary is
    read in a form that is in it, see `known_forms`.
    """

    marks = 1  # `</s>`
    names_files = False

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, lowercase: bool = False, match_known_forms: bool = False
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self.match_known_forms = match_known_forms

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def collate(self, items: Items) -> Tokens:
        return pad(items)

    def labels(self, line: str) -> list[str]:
        """The pieces of a line, and `</s>`."""
        return [*self.pieces(line), SPECIALS[EOS]]

    def words(self, line: str) -> list[str]:
        return line.split()

    def cut(self, item: list[Any], limit: int) -> list[Any]:
        """The first `limit` tokens of a sentence, and `</s>`."""
        return item if len(item) - 1 <= limit else [*item[:limit], item[-1]]

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line, those outside the vocabulary included."""
        return self._known(self.tokenizer.encode(self._cased(line)))

    def word_indices(self, line: str) -> list[int]:
        """For each piece, the index of the whitespace-separated word of the line that it comes from."""
        line = self._cased(line)
        indices = self.tokenizer.word_indices(line)
        if not self.match_known_forms:
            return indices
        pieces = zip(indices, self.tokenizer.encode(line), strict=True)
        return [index for index, piece in pieces for _ in known_forms(piece, self.vocabulary)]

    def unknown_words(self, line: str) -> list[str]:
        """The whitespace-separated words of the line, in order, of which a piece is read as `<unk>`."""
        ids = self.encode(line)[:-1]
        if UNK not in ids:
            return []
        unknown = {word for word, index in zip(self.word_indices(line), ids, strict=True) if index == UNK}
        words = line.split()
        return [words[index] for index in sorted(unknown)]

    def count_unknown(self, lines: Iterable[str]) -> UnknownCount:
        """How many of the whitespace-separated words of these lines are unknown."""
        counts = [(len(self.unknown_words(line)), len(line.split())) for line in lines]
        return UnknownCount(sum(unknown for unknown, _ in counts), sum(words for _, words in counts))

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces, then `</s>`.

        `<unk>` in a line is the unknown token. A piece that is spelled like another special token is ordinary text and
        therefore unknown: `</s>` in a file does not end a sentence.
        """
        return self._ids(self.pieces(line))

    def sample(self, lines: Sequence[str], alpha: float, random: np.random.Generator) -> Iterable[list[int]]:
        """As `encode` for each line, but in a segmentation drawn at random (`SentencePiece.sample`)."""
        drawn = self.tokenizer.sample([self._cased(line) for line in lines], alpha, random)
        return (self._ids(self._known(pieces)) for pieces in drawn)

    def _known(self, pieces: list[str]) -> list[str]:
        if not self.match_known_forms:
            return pieces
        return [form for piece in pieces for form in known_forms(piece, self.vocabulary)]

    def _ids(self, pieces: list[str]) -> list[int]:
        ids = self.vocabulary.lookup_indices(pieces)
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
        return self.tokenizer.decode(
            [next(instead, piece) if index == UNK else piece for index, piece in zip(shown, pieces, strict=True)]
        )

    def changes(self, lines: Iterable[str]) -> Iterator[ChangedLine]:
        """The lines that are not as before when they are encoded and decoded, apart from `lowercase`."""
        for line in filter(str.strip, map(self._cased, lines)):
            ids = self.encode(line)
            if (decoded := self.decode(ids)) != line:
                yield ChangedLine(line, decoded, UNK in ids)

    def difference(self, other: FrontEnd) -> str | None:
        """In words, why the same ids may be other text to `other`, or the same text other ids; None if they cannot."""
        if isinstance(other, Codec) and self.vocabulary.get_itos() != other.vocabulary.get_itos():
            return f"vocabularies of {self.size:,} and {other.size:,} tokens that differ"
        return None if self.rules() == other.rules() else "tokenizers that differ"

    def rules(self) -> tuple[Any, ...]:
        options = self.tokenizer.options(), self.lowercase, self.match_known_forms
        return self.tokenizer.kind, *options, self.vocabulary.get_itos()

    def _cased(self, line: str) -> str:
        return line.lower() if self.lowercase else line

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
            }
        )
        return {
            **{f"{side}.{self.tokenizer.kind}.{name}": content for name, content in files.items()},
            f"{side}.vocabulary.txt": self.vocabulary.content(),
            f"{side}.tokenizer.json": _RECORD.dump_json(record, indent=2) + b"\n",
        }

    @classmethod
    def load(cls, folder: Path, side: str) -> Codec:
        """Read its `files`. Raises UserError, with the file's name, if a file is missing, invalid or damaged."""
        path = checked(folder, f"{side}.tokenizer.json")
        record = load_record(_RECORD, path, "restore it, or train the run again")
        files = {name: checked(folder, f"{side}.{record.kind}.{name}") for name in record.files}
        try:
            tokenizer = _TOKENIZERS[record.kind](
                **record.options, **{name: read_bytes(each) for name, each in files.items()}
            )
        except (ValueError, TypeError) as error:
            named = next(iter(files.values()), path)
            raise UserError(f"{named}: not a valid tokenizer: {error}; restore it, or train the run again") from None
        vocabulary = Vocabulary.load(checked(folder, f"{side}.vocabulary.txt"))
        return cls(tokenizer, vocabulary, record.lowercase, record.match_known_forms)


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


def default_size(lines: Sequence[str], pairs: int) -> int:
    """A vocabulary size for training text: its characters, the special tokens, and 40 √n more for n sentence pairs.

    About 2,200 for 3,000 pairs, 7,000 for 30,000 and 40,000 for a million: in a small corpus, what is rare is read and
    written in parts that are not.
    """
    characters = set().union(*map(set, lines))
    return len(SPECIALS) + len(characters) + round(40 * math.sqrt(pairs))


def train_codec(
    lines: Sequence[str],
    pairs: int,
    kind: str = "bpe",
    language: str = "en",
    *,
    vocabulary_size: int | None = None,
    minimum_frequency: int = 1,
    lowercase: bool = False,
    match_known_forms: bool = False,
    character_coverage: float = 1.0,
    normalization: str = "identity",
) -> Codec:
    """The codec of one side, trained on its lines in a corpus of this many pairs.

    `kind` is one of `KINDS`. `vocabulary_size` includes the special tokens: `bpe` and `unigram` reach it exactly, for
    the other kinds it is an upper limit. None: that of `default_size`, or fewer if the text does not yield as many.
    `minimum_frequency` and `match_known_forms` apply to the other kinds only, `language` to `moses`,
    `character_coverage` and `normalization` to `bpe` and `unigram`.
    Raises UserError for an unknown kind, and for options that do not suit the kind.
    """
    lines = [line.lower() for line in lines] if lowercase else lines
    size = vocabulary_size or default_size(lines, pairs)
    if kind in ("bpe", "unigram"):
        if minimum_frequency != 1:
            raise UserError(
                f"minimum frequency {minimum_frequency}: {kind} chooses its pieces by the vocabulary "
                f"size alone; leave it at 1"
            )
        pieces = SentencePiece.train(
            lines,
            size,
            kind,
            exact=vocabulary_size is not None,
            character_coverage=character_coverage,
            normalization=normalization,
        )
        return Codec(pieces, pieces.vocabulary(), lowercase)
    tokenizer = _rule_based(kind, language)
    vocabulary = Vocabulary.build(map(tokenizer.encode, lines), size, minimum_frequency)
    return Codec(tokenizer, vocabulary, lowercase, match_known_forms)


def train_codecs(
    corpus: ParallelCorpus,
    kind: str = "bpe",
    *,
    joint: bool = False,
    source_language: str = "en",
    target_language: str = "en",
    **options: Any,
) -> tuple[Codec, Codec]:
    """The codecs of both sides, trained on a corpus; with `joint` a single codec, returned twice.

    The options are those of `train_codec`. Raises UserError as it does, and for one codec with the rules of two
    languages.
    """
    if joint and kind == "moses" and source_language != target_language:
        raise UserError(
            f"joint moses tokenizer for {source_language} and {target_language}: its rules are those of one "
            f"language; use bpe or unigram, or joint: false"
        )
    if joint:
        codec = train_codec([*corpus.source, *corpus.target], len(corpus), kind, source_language, **options)
        return codec, codec
    sides = (corpus.source, source_language), (corpus.target, target_language)
    source, target = (train_codec(lines, len(corpus), kind, language, **options) for lines, language in sides)
    return source, target


def _rule_based(kind: str, language: str) -> Tokenizer:
    if kind == "word":
        return Word()
    if kind == "moses":
        return Moses(language)
    if kind == "character":
        return Character()
    raise UserError(f"unknown tokenizer {kind!r}; choose from {', '.join(KINDS)}")
