"""Word alignments as text, in the Pharaoh format: one line a sentence pair, its links apart by blanks.

`i-j` links source word i to target word j, both counted from 0. Gold alignments write a link that is possible
but not sure as `ipj` (lilt/alignment-scripts, SimAlign) or `i?j` (cdec): both are read, the first is written.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from seq2seq_attn.errors import UserError

Link = tuple[int, int]  # source word, target word
Links = Set[Link]  # of one sentence pair

_LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)")


class Gold(NamedTuple):
    """The links of one sentence pair. A sure link is possible, too: sure <= possible (Och & Ney, 2003)."""

    sure: Links
    possible: Links


class GoldCorpus(NamedTuple):
    """The links of every sentence pair, in the order that `alignment_error_rate(predicted, *gold)` takes."""

    sure: list[Links]
    possible: list[Links]


def parse_links(line: str, place: str = "links") -> Gold:
    """The links of a line; UserError, beginning with `place`, for a word that is none."""
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise UserError(f"{place}: {word!r} is no link; write i-j, or ipj for one that is possible, not sure")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def format_links(sure: Iterable[Link], possible: Iterable[Link] = ()) -> str:
    """The links of one sentence pair as a line, in order; those in `possible` alone as `ipj`."""
    certain = set(sure)
    links = sorted(certain.union(possible))
    return " ".join(f"{i}{'-' if (i, j) in certain else 'p'}{j}" for i, j in links)


def read_gold(path: Path, sentences: int | None = None) -> GoldCorpus:
    """The links of a file, plain or .gz; an empty line is a sentence pair without links.

    UserError: the file cannot be read, a bad link (with its line), or not `sentences` lines, where given.
    """
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot read alignments ({error}); check the path and the file") from error
    if sentences is not None and len(lines) != sentences:
        raise UserError(f"{path}: {len(lines)} lines for {sentences} sentence pairs; each needs its line of links")
    # What is not UTF-8 is no link either: so the error that names the line catches it.
    gold = [
        parse_links(line.decode("utf-8", errors="replace"), f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
    ]
    return GoldCorpus([pair.sure for pair in gold], [pair.possible for pair in gold])


def read_gold_of(path: Path, sources: Sequence[str], targets: Sequence[str]) -> GoldCorpus:
    """The links of a file between the words of these sentence pairs.

    UserError: as of `read_gold`, or a link to a word that its sentence does not have, as where words count from 1.
    """
    gold = read_gold(path, len(sources))
    for number, (links, source, target) in enumerate(zip(gold.possible, sources, targets, strict=True), start=1):
        words = len(source.split()), len(target.split())
        for i, j in sorted(links):
            if i >= words[0] or j >= words[1]:
                raise UserError(
                    f"{path}, line {number}: link {i}-{j}, but the pair has {words[0]} source and {words[1]} target "
                    "words; words are what white space separates, counted from 0"
                )
    return gold
