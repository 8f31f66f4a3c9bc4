"""Recordings, images and arrays, which clients send as they are, for models whose lines name files."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from seq2seq_attn.config import TestFiles
from seq2seq_attn.corpora.display import Display
from seq2seq_attn.corpora.encoded import Item, Items
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.unknown_words import ReadAs
from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.results.seen import SeenSource
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import read_test
from seq2seq_attn.runs.model import TrainedModel

EXAMPLES = 5  # of the test set
LONGEST_EXAMPLE = 1 << 18  # bytes of a file; the list of models has all of them
ANSWERS = 4  # about the files that were sent last, which are kept: parts of a request ask the same

_Answer = TypeVar("_Answer")


class SentFiles(FrontEnd):
    """The front end of a model whose lines name files, for lines that are the files themselves.

    A line is `data:TYPE;base64,CONTENT` (RFC 2397). The content is in a file of its own for as long as something reads
    it. A line of any other form is refused, so that no client can name a file of this machine.

    Args:
        inner: The front end of the model.
        kind: What it reads, as the configuration names it.
    """

    def __init__(self, inner: FrontEnd, kind: str) -> None:
        self.inner, self.kind, self.marks = inner, kind, inner.marks
        self._answers = lru_cache(maxsize=ANSWERS)(self._ask)

    def _ask(self, question: Callable[[str], Any], line: str) -> Any:
        with self._file(line) as path:
            return question(path)

    def _asked(self, question: Callable[[str], _Answer], line: str) -> _Answer:
        """What a method of the inner front end says of the file."""
        found: _Answer = self._answers(question, line)
        return found

    @contextmanager
    def _file(self, line: str) -> Iterator[str]:
        """The path of the content. UserError: the line has none; an error of the block does not name the path."""
        kind, content = self._content(line)
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / f"source{mimetypes.guess_extension(kind) or ''}"
            path.write_bytes(content)
            try:
                yield str(path)
            except UserError as error:
                raise UserError(str(error).replace(str(path), "the file that was sent")) from None

    def _content(self, line: str) -> tuple[str, bytes]:
        """The type of a file, and what is in it."""
        head, comma, content = line.partition(",")
        if not (comma and head.startswith("data:") and head.endswith(";base64")):
            raise UserError(
                f"this model reads {self.kind}, not text or paths: send the file itself as a line "
                f"data:TYPE;base64,CONTENT, such as data:audio/wav;base64,UklGR..."
            )
        try:
            return head[len("data:") : -len(";base64")], base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise UserError(f"the file that was sent is not in base64: {error}") from None

    @property
    def size(self) -> Any:
        return self.inner.size

    def encode(self, line: str) -> Item:
        return self._asked(self.inner.encode, line)

    def labels(self, line: str) -> list[str]:
        return self._asked(self.inner.labels, line)

    def display(self, line: str) -> Display | None:
        return self._asked(self.inner.display, line)

    def words(self, line: str) -> list[str]:
        return self._asked(self.inner.words, line)

    def word_indices(self, line: str) -> list[int]:
        return self._asked(self.inner.word_indices, line)

    def unknown_words(self, line: str) -> list[str]:
        return self._asked(self.inner.unknown_words, line)

    def read_as(self, line: str) -> list[ReadAs]:
        return self._asked(self.inner.read_as, line)

    def collate(self, items: Items) -> Source:
        return self.inner.collate(items)

    def length(self, item: Any) -> int:
        return self.inner.length(item)

    def cut(self, item: Any, limit: int) -> Any:
        return self.inner.cut(item, limit)

    def rules(self) -> Any:
        return self.inner.rules()


def seen(model: TrainedModel, source: str | Sequence[str]) -> dict[str, Any]:
    """What a client shows of a source that is not text (`answers.SeenRecord`); nothing of text."""
    if not isinstance(source, str) or (display := model.display(source)) is None:
        return {}
    found = SeenSource.of(display, len(model.source_labels(source)))
    sound = None if found.sound is None else f"data:audio/wav;base64,{found.sound}"
    about = {"positions": found.positions, "seconds": found.seconds, "sound": sound, "grid": model.rows(source)}
    return {"seen": {"picture": found.png, "shape": found.shape[:2]} | about}


def as_line(path: Path) -> str:
    """The line with which a client sends a file."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def sample_files(files: TestFiles | None, say: Say = lambda _: None) -> Sequence[dict[str, Any]]:
    """Some pairs of the test set with what their files hold, large ones left out.

    None where one cannot be read; `say` is then called with which: the run was moved away from its data, say.
    """
    if files is None:
        return []
    try:
        pairs = read_test(files).pairs
        every = max(1, len(pairs) // EXAMPLES)
        chosen = [(Path(pairs.source[i]), pairs.target[i]) for i in range(0, len(pairs), every)][:EXAMPLES]
        return [
            {"source": as_line(path), "target": target, "links": None}
            for path, target in chosen
            if path.stat().st_size <= LONGEST_EXAMPLE
        ]
    except UserError as error:
        say(f"no examples of the test set: {error}")
    except OSError as error:
        say(f"no examples of the test set: {file_of(error, 'a file')}: {error.strerror}")
    return []
