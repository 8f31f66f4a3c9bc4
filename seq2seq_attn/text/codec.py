"""Text to ids and back: one tokeniser and one vocabulary for one side of a corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.character import Character
from seq2seq_attn.text.files import read_bytes, write_bytes
from seq2seq_attn.text.moses import Moses
from seq2seq_attn.text.sentencepiece import SentencePiece
from seq2seq_attn.text.tokeniser import Tokeniser
from seq2seq_attn.text.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from seq2seq_attn.text.word import Word

_TOKENISERS: dict[str, type[Tokeniser]] = {
    tokeniser.kind: tokeniser for tokeniser in (Word, Moses, Character, SentencePiece)
}


class Codec:
    """A line of text as ids that end in `</s>`, and ids as a line; `lowercase` lowers a line first of all."""

    def __init__(self, tokeniser: Tokeniser, vocabulary: Vocabulary, lowercase: bool = False) -> None:
        self.tokeniser = tokeniser
        self.vocabulary = vocabulary
        self.lowercase = lowercase

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line, known or not."""
        return self.tokeniser.encode(self._cased(line))

    def word_indices(self, line: str) -> list[int]:
        """For each piece, the index of the whitespace-separated word of the line that it came from."""
        return self.tokeniser.word_indices(self._cased(line))

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces, then `</s>`.

        A piece that is written like a special token is text and so unknown: a `</s>` in a file ends no
        sentence.
        """
        ids = self.vocabulary.lookup_indices(self.pieces(line))
        return [index if index >= len(SPECIALS) else UNK for index in ids] + [EOS]

    def decode(self, ids: Sequence[int]) -> str:
        """The line up to the first `</s>`, special tokens left out."""
        ids = list(ids)
        end = ids.index(EOS) if EOS in ids else len(ids)
        return self.tokeniser.decode(
            self.vocabulary.lookup_tokens([index for index in ids[:end] if index >= len(SPECIALS)])
        )

    def _cased(self, line: str) -> str:
        return line.lower() if self.lowercase else line

    def save(self, folder: Path, side: str) -> None:
        """Write `SIDE.tokeniser.json`, `SIDE.vocabulary.txt` and, with sentencepiece, its `.model` file."""
        options = self.tokeniser.options()
        files = {name: value for name, value in options.items() if isinstance(value, bytes)}
        for name, content in files.items():
            write_bytes(folder / f"{side}.{self.tokeniser.kind}.{name}", content)
        self.vocabulary.save(folder / f"{side}.vocabulary.txt")
        record = {
            "kind": self.tokeniser.kind,
            "options": {name: value for name, value in options.items() if name not in files},
            "files": list(files),
            "lowercase": self.lowercase,
        }
        write_bytes(folder / f"{side}.tokeniser.json", (json.dumps(record, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: Path, side: str) -> Codec:
        """Read what `save` wrote. Raises UserError, naming the file, if something is missing or foreign."""
        path = folder / f"{side}.tokeniser.json"
        try:
            record = json.loads(read_bytes(path))
            kind, options, lowercase = record["kind"], record["options"], record["lowercase"]
            files = {name: read_bytes(folder / f"{side}.{kind}.{name}") for name in record["files"]}
            tokeniser = _TOKENISERS[kind](**options, **files)
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: this and the files beside it make no tokeniser: {error!r}") from None
        return cls(tokeniser, Vocabulary.load(folder / f"{side}.vocabulary.txt"), lowercase)


def save_codecs(source: Codec, target: Codec, folder: Path) -> None:
    """Write both codecs, under `source.*` and `target.*`; one that serves both sides only `joint.*`."""
    if source is target:
        source.save(folder, "joint")
    else:
        source.save(folder, "source")
        target.save(folder, "target")


def load_codecs(folder: Path) -> tuple[Codec, Codec]:
    """Source and target codec of a run folder; the same object twice if they are joint."""
    if (folder / "joint.tokeniser.json").exists():
        joint = Codec.load(folder, "joint")
        return joint, joint
    return Codec.load(folder, "source"), Codec.load(folder, "target")
