"""Tokenizers: split a line into pieces, join pieces into a line, and trace each piece to its word.

`Word`, `Character` and `Moses` follow fixed rules; `SentencePiece` is trained. To all of them, `<unk>` in a line is the
unknown token: one piece, and the text of that piece. So a translation that shows it can be read back. A protected
symbol, such as a placeholder or the tag of a language, is a piece of its own wherever it stands.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer, set_random_generator_seed

from seq2seq_attn.corpora.languages import is_unspaced, language_code, without_rules
from seq2seq_attn.corpora.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from seq2seq_attn.errors import UserError

UNKNOWN = SPECIALS[UNK]


class Tokenizer(ABC):
    """Splits a line into pieces and joins pieces into readable (detokenized) text. Immutable.

    Args:
        protected: Symbols that are always one piece, also inside a word; none contains another.
    """

    kind: ClassVar[str]  # its name in a run folder

    def __init__(self, protected: Iterable[str] = ()) -> None:
        self.protected = tuple(protected)
        self._symbol = "|".join(map(re.escape, self.protected))  # two patterns
        self._whole = "|".join(map(re.escape, (UNKNOWN, *self.protected)))

    def _apart(self, line: str) -> str:
        """The line with white space around its protected symbols."""
        return re.sub(self._symbol, r" \g<0> ", line) if self.protected else line

    def without_symbols(self, line: str) -> str:
        """The line without its protected symbols."""
        return re.sub(self._symbol, "", line) if self.protected else line

    def lowercase(self, line: str) -> str:
        """The line in lower case, apart from its protected symbols."""
        if not self.protected:
            return line.lower()
        parts = re.split(f"({self._symbol})", line)  # the symbols are those with odd indices
        return "".join(part if index % 2 else part.lower() for index, part in enumerate(parts))

    @abstractmethod
    def encode(self, line: str) -> list[str]:
        """The pieces of a line; none for a blank line."""

    def sample(self, lines: Sequence[str], alpha: float, random: np.random.Generator) -> Iterable[list[str]]:
        """The pieces of each line in a segmentation drawn at random; fixed rules have only one."""
        return map(self.encode, lines)

    @abstractmethod
    def decode(self, pieces: list[str]) -> str:
        """The line that the pieces form."""

    def continues_word(self, piece: str) -> bool:
        """Whether a piece cannot begin a word."""
        return False

    def within(self, pieces: list[str], vocabulary: Vocabulary) -> list[str]:
        """The pieces of a phrase as they are inside a sentence of a script without spaces; the same in others."""
        return pieces

    def spellings(self, pieces: list[str], vocabulary: Vocabulary) -> list[list[str]]:
        """The other ways to spell the same text by tokens of the vocabulary, these pieces first."""
        return [pieces]

    def word_indices(self, line: str) -> list[int]:
        """For each piece of `encode(line)`, the index of the whitespace-separated word that it comes from.

        This turns attention between pieces into an alignment between words. Each piece is searched for in the line
        from the end of the previous one, which is correct if the pieces contain the line's own characters in their
        order. A tokenizer that rewrites characters overrides this method.
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
        """The constructor's arguments: values that JSON can hold, or bytes that are saved to a file of their own."""
        return {"protected": list(self.protected)} if self.protected else {}


def word_of_character(line: str) -> list[int]:
    """For each character of a line, the index of its whitespace-separated word.

    White space belongs to the word after it; trailing white space belongs to the last word.
    """
    words: list[int] = []
    started, inside = 0, False
    for character in line:
        started += not inside and not character.isspace()
        inside = not character.isspace()
        words.append(started - 1 if inside else started)
    return [min(word, max(started - 1, 0)) for word in words]


class Word(Tokenizer):
    """Splits at white space and joins with single spaces; for text that is already tokenized."""

    kind = "word"

    def encode(self, line: str) -> list[str]:
        return self._apart(line).split()

    def decode(self, pieces: list[str]) -> str:
        return " ".join(pieces)


class Character(Tokenizer):
    """Every character is a piece, the space is `▁`. `decode(encode(line)) == line` for every line that is not blank."""

    kind = "character"

    _SPACE = "▁"  # U+2581, the symbol that sentencepiece uses for a space
    _LITERAL = "▁▁"  # a U+2581 that is part of the text

    def encode(self, line: str) -> list[str]:
        if not line.strip():
            return []
        characters = re.findall(f"{self._whole}|.", line, re.DOTALL)
        return [{" ": self._SPACE, self._SPACE: self._LITERAL}.get(each, each) for each in characters]

    def decode(self, pieces: list[str]) -> str:
        return "".join({self._SPACE: " ", self._LITERAL: self._SPACE}.get(piece, piece) for piece in pieces)

    def word_indices(self, line: str) -> list[int]:
        if not line.strip():
            return []
        words = word_of_character(line)
        return [words[each.start()] for each in re.finditer(f"{self._whole}|.", line, re.DOTALL)]


class Moses(Tokenizer):
    """The rules of the Moses toolkit (Koehn et al. 2007), which most published Multi30k and WMT results use.

    The implementation is sacremoses, without its XML escapes (`'s`, not `&apos;s`). `language` is any spelling that
    `language_code` knows; it selects the abbreviations that keep their full stop and the treatment of apostrophes.
    Raises UserError for a language without such rules.
    """

    kind = "moses"

    def __init__(self, language: str, protected: Iterable[str] = ()) -> None:
        super().__init__(protected)
        self.language = language_code(language)
        if (reason := without_rules(self.language)) is not None:
            raise UserError(f"moses: {reason}")
        from sacremoses import MosesDetokenizer, MosesTokenizer  # compiles its rules for a quarter of a second

        self._tokenizer = MosesTokenizer(self.language)
        self._detokenizer = MosesDetokenizer(self.language)

    def encode(self, line: str) -> list[str]:
        protected = [self._whole] if re.search(self._whole, line) else None
        pieces: list[str] = self._tokenizer.tokenize(self._apart(line), escape=False, protected_patterns=protected)
        return pieces

    def decode(self, pieces: list[str]) -> str:
        line: str = self._detokenizer.detokenize(pieces, unescape=False)
        return line

    def options(self) -> dict[str, Any]:
        return super().options() | {"language": self.language}


# What sentencepiece has another use for (the end of a text, the end of a word, a space, unknown text), each with the
# character of a private plane of Unicode that stands for it in pieces.
_RESERVED = {ord(each): 0xF0000 + ord(each) for each in "\0\t▁▅"}
_ESCAPED = {escape: character for character, escape in _RESERVED.items()}

# A line in parts of at most 1,000 characters, cut at spaces where there are any.
_PARTS = re.compile(r"(?P<words>.{1,1000})(?: |\Z)|(?P<characters>.{1000})", re.DOTALL)


class SentencePiece(Tokenizer):
    """Subwords of a trained sentencepiece model (Kudo & Richardson 2018).

    `model` is the content of its `.model` file: BPE after Sennrich et al. 2016, or unigram after Kudo 2018. A piece
    at the beginning of a word starts with `▁`. If the model was trained with the normalization `identity`,
    `decode(encode(line)) == line` for every line that is not blank.
    """

    kind = "sentencepiece"

    _SPELLINGS = 200  # of a phrase at most
    _CHUNK = 10_000  # lines whose samples are in memory as text at the same time
    # The last private character stands for `<unk>`, which sentencepiece splits in a line and decodes as ` ⁇ `.
    _MARK = "\U0010fffd"

    def __init__(self, model: bytes, protected: Iterable[str] = ()) -> None:
        super().__init__(protected)
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except (RuntimeError, SystemError):  # the latter for a model whose error message is not UTF-8
            raise ValueError(f"{len(model)} bytes are not a sentencepiece model") from None
        self.model = model
        self._is_exact = bool(self._processor.encode("  "))  # all other normalizations remove white space at the ends

    @classmethod
    def train(
        cls,
        lines: Sequence[str],
        vocabulary_size: int,
        model: str = "bpe",
        *,
        exact: bool = True,
        character_coverage: float = 1.0,
        normalization: str = "identity",
        protected: Sequence[str] = (),
    ) -> SentencePiece:
        """Learn `vocabulary_size` pieces, special tokens and protected symbols included; equal lines give equal bytes.

        Without `exact`, fewer are learned where the text does not yield as many.

        `model` is `bpe` or `unigram`. `character_coverage` is the fraction of the text's characters that become
        pieces; below 1, the rarest characters become `<unk>` (0.9995 suits Chinese). `normalization` is the name of
        the rules by which sentencepiece rewrites text: `identity` changes nothing; `nmt_nfkc` converts full-width
        punctuation to ASCII, `…` to three dots and `²` to 2, and joins white space to single spaces. Raises UserError
        if the text does not yield that many pieces, or if its characters need more.
        """
        if not any(line.strip() for line in lines):
            raise UserError(f"{model}: there is no text to learn pieces from ({len(lines)} lines, all blank)")
        is_exact = normalization == "identity"
        trained = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=chain.from_iterable(cls._learnable(line, is_exact) for line in lines),
                model_writer=trained,
                model_type=model,
                vocab_size=vocabulary_size,
                character_coverage=character_coverage,
                user_defined_symbols=list(protected),
                normalization_rule_name=normalization,
                remove_extra_whitespaces=not is_exact,
                unk_id=UNK,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_piece=SPECIALS[UNK],
                pad_piece=SPECIALS[PAD],
                bos_piece=SPECIALS[BOS],
                eos_piece=SPECIALS[EOS],
                num_threads=1,  # floating-point sums depend on the number of threads
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            most = _most_pieces(str(error))
            if most is not None and not exact:
                return cls.train(
                    lines,
                    most,
                    model,
                    character_coverage=character_coverage,
                    normalization=normalization,
                    protected=protected,
                )
            raise UserError(_explained(str(error), model, vocabulary_size, len(lines))) from None
        return cls(trained.getvalue(), protected)

    @staticmethod
    def _learnable(line: str, is_exact: bool) -> Iterator[str]:
        """The text of a line in parts that sentencepiece learns from; of others it would leave out all or a part.

        A line with its mark of unknown text and a line of more than 4,192 bytes would be left out, and so would text
        that is spelled like a special token; a word of more than 65,535 characters would end the process.
        """
        line = line.translate(_RESERVED) if is_exact else line.replace("▅", " ")
        line = line.replace(UNKNOWN, " ")
        for special in SPECIALS:
            line = line.replace(special, f"{special[0]} {special[1:]}")
        for part in _PARTS.finditer(line):
            yield part["words"] or part["characters"]

    def encode(self, line: str) -> list[str]:
        if not line.strip():
            return []
        return self._read_marks(self._processor.encode(self._escaped(line), out_type=str))

    def _marked(self, line: str) -> str:
        return line.replace(UNKNOWN, self._MARK)

    def _read_marks(self, pieces: list[str]) -> list[str]:
        """The pieces with `<unk>` for each mark; sentencepiece joins neighboring characters that it does not know."""
        return [part for piece in pieces for part in self._parts(piece)]

    def _parts(self, piece: str) -> list[str]:
        if self._MARK not in piece:
            return [piece]
        return [UNKNOWN if part == self._MARK else part for part in re.split(f"({self._MARK})", piece) if part]

    def _escaped(self, line: str) -> str:
        return self._marked(line.translate(_RESERVED) if self._is_exact else line)

    def sample(self, lines: Sequence[str], alpha: float, random: np.random.Generator) -> Iterable[list[str]]:
        """As the base class. BPE leaves out each merge with probability `alpha` (BPE-dropout, Provilkov et al. 2020);
        unigram draws from all segmentations x in proportion to P(x)^alpha (Kudo 2018, sec. 3.3).

        Sets the seed of sentencepiece, which has one for the whole process and cannot return it.
        """

        def pieces(start: int) -> list[list[str]]:
            # A thread reads the seed when it first draws. A call for several lines always draws in a new thread.
            set_random_generator_seed(int(random.integers(2**31)))
            options = {"enable_sampling": True, "alpha": alpha, "nbest_size": -1, "num_threads": 1}
            chunk = list(map(self._escaped, lines[start : start + self._CHUNK]))
            drawn: list[list[str]] = self._processor.encode(chunk, out_type=str, **options)
            return [self._read_marks(each) if line.strip() else [] for line, each in zip(chunk, drawn, strict=True)]

        return chain.from_iterable(map(pieces, range(0, len(lines), self._CHUNK)))

    def decode(self, pieces: list[str]) -> str:
        line: str = self._processor.decode([self._marked(piece) for piece in pieces])
        return (line.translate(_ESCAPED) if self._is_exact else line).replace(self._MARK, UNKNOWN)

    def word_indices(self, line: str) -> list[int]:
        """As `Tokenizer.word_indices`, from sentencepiece's own offsets, because normalization may rewrite the line."""
        line = self._marked(line)
        words = word_of_character(line)
        if not line.strip():
            return []
        pieces = self._processor.encode(self._escaped(line), out_type="immutable_proto").pieces
        # A piece includes the white space before its word, and spans no other white space but that of numbers such as
        # 10\u202f000, so its start decides.
        return [words[piece.begin] for piece in pieces for _ in self._parts(piece.piece)]

    def continues_word(self, piece: str) -> bool:
        return piece[:1].isalnum() and not is_unspaced(piece)

    def within(self, pieces: list[str], vocabulary: Vocabulary) -> list[str]:
        """As the base class: the same without the `▁` of a word, which text inside a sentence does not have."""
        text = "".join(pieces)
        if not text.startswith("▁") or not is_unspaced(text[1:]):
            return pieces
        spelled = pieces[1:] if pieces[0] == "▁" else [pieces[0][1:], *pieces[1:]]
        if all(piece in vocabulary for piece in spelled):
            return spelled
        others = self.spellings(list(text[1:]), vocabulary)
        fewest = min(others, key=len)
        return fewest if all(piece in vocabulary for piece in fewest) else pieces

    def spellings(self, pieces: list[str], vocabulary: Vocabulary) -> list[list[str]]:
        """As the base class; at most 200, those with the fewest pieces first."""
        text, found = "".join(pieces), [pieces]
        begun: list[tuple[int, list[str]]] = [(0, [])]  # positions in the text, and the pieces up to them
        while begun and len(found) < self._SPELLINGS:
            longer = [
                (end, [*before, text[start:end]])
                for start, before in begun[: self._SPELLINGS]
                for end in range(len(text), start, -1)
                if text[start:end] in vocabulary
            ]
            found += [spelling for end, spelling in longer if end == len(text) and spelling != pieces]
            begun = [each for each in longer if each[0] < len(text)]
        return found[: self._SPELLINGS]

    def vocabulary(self) -> Vocabulary:
        """All pieces, with the ids of the model."""
        size = self._processor.get_piece_size()
        return Vocabulary(self._processor.id_to_piece(index) for index in range(len(SPECIALS), size))

    def options(self) -> dict[str, Any]:
        return super().options() | {"model": self.model}


def _most_pieces(message: str) -> int | None:
    """How many pieces the text yields, where sentencepiece says that it was asked for more."""
    most = re.search(r"value <= (\d+)", message)
    return int(most[1]) if most else None


def _explained(message: str, model: str, size: int, lines: int) -> str:
    """A one-line message for sentencepiece's error, whose text names a C++ source line and a condition."""
    most = _most_pieces(message)
    if most is not None:
        too_large = f"{model}: vocabulary size {size} is too large for {lines} lines"
        return f"{too_large}; set text.vocabulary_size to at most {most}"
    if fewest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        remedy = f"set text.vocabulary_size to at least {fewest[1]}, or text.character_coverage to less than 1"
        return f"{model}: vocabulary size {size} is too small for the characters alone; {remedy}"
    return f"{model}: sentencepiece refuses: {message}"


TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer for tokenizer in (Word, Moses, Character, SentencePiece)
}
