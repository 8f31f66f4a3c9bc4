"""The corpora that the package knows, described in `corpora.yaml`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import yaml

from seq2seq_attn.errors import UserError


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus.

    `sha256` is that of the text, decompressed: the same file is plain at one address and gzip at another.
    `name` says how it is stored here (`.gz` or not). Without a `url` no public address has this very text.
    """

    name: str
    sha256: str
    url: str | None = None
    member: str | None = None  # its path inside, where the url is a zip archive


@dataclass(frozen=True)
class Corpus:
    """A corpus by name: fetched if it has files, else made by a generator of this package."""

    name: str
    description: str
    size: str
    licence: str
    page: str
    citation: str
    note: str = ""  # what to know before fetching it
    files: tuple[CorpusFile, ...] = field(default=())

    @property
    def is_made(self) -> bool:
        """True if the package generates it, False if it is fetched."""
        return not self.files


@cache
def corpora() -> dict[str, Corpus]:
    """All corpora by name, in the order of the manifest."""
    entries = yaml.safe_load(files(__package__).joinpath("corpora.yaml").read_text(encoding="utf-8"))
    return {
        name: Corpus(name, **{**entry, "files": tuple(CorpusFile(**file) for file in entry.get("files", ()))})
        for name, entry in entries.items()
    }


def find(name: str) -> Corpus:
    """The corpus of this name. Raises UserError with the nearest name."""
    try:
        return corpora()[name]
    except KeyError:
        near = difflib.get_close_matches(name, corpora(), n=1, cutoff=0.4)
        hint = f"do you mean {near[0]}?" if near else f"there is {', '.join(corpora())}"
        raise UserError(f"corpus {name!r} is not known; {hint}") from None
