"""Parallel corpora: read from files, counted, filtered by length, and split into training, validation and test sets."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from seq2seq_attn.corpora.languages import language_code
from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.contents import without_packing
from seq2seq_attn.files.reading import iterate_lines
from seq2seq_attn.files.writing import write_new

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ANNOTATIONS = ("align",)  # suffixes of files that lie beside the two sides of a part and are neither of them
_NO_LANGUAGES = {"src", "tgt", "trg", "tok", "txt"}  # suffixes that look like a language code

Columns = tuple[int | tuple[int, ...], int]  # of a table: the source, which may have several, and the target
Languages = tuple[str, str]  # codes, as `language_code` writes them, source first


@dataclass(frozen=True)
class ParallelCorpus:
    """Line i of `target` belongs to line i of `source`; `name` is the corpus's origin, for messages."""

    source: Sequence[str]
    target: Sequence[str]
    name: str = "corpus"

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise UserError(
                f"{self.name}: {len(self.source)} source lines and {len(self.target)} target lines; "
                f"a parallel corpus has a target for every source"
            )

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], name: str) -> ParallelCorpus:
        """The corpus of these pairs."""
        source, target = [], []
        for one, other in pairs:
            source.append(one)
            target.append(other)
        return cls(source, target, name)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def filled(self) -> list[int]:
        """The indices of the pairs with text on both sides."""
        pairs = zip(self.source, self.target, strict=True)
        return [index for index, (source, target) in enumerate(pairs) if source.strip() and target.strip()]

    def select(self, indices: Iterable[int]) -> ParallelCorpus:
        """The pairs with these indices, in this order."""
        indices = list(indices)
        return ParallelCorpus(
            [self.source[index] for index in indices], [self.target[index] for index in indices], self.name
        )


def joined(corpora: Sequence[ParallelCorpus]) -> ParallelCorpus:
    """One corpus after the other."""
    source = [line for each in corpora for line in each.source]
    target = [line for each in corpora for line in each.target]
    return ParallelCorpus(source, target, "; ".join(each.name for each in corpora))


def read_parallel(source_path: Path | str | Sequence[Path], target_path: Path | str) -> ParallelCorpus:
    """A corpus from two text files, plain or compressed, one sentence per line; errors as in `iterate_parallel`."""
    paths = [source_path] if isinstance(source_path, (Path, str)) else list(source_path)
    name = f"{', '.join(map(str, paths))} and {target_path}"
    return ParallelCorpus.of(iterate_parallel(paths, target_path), name)


def iterate_parallel(source_paths: Sequence[Path | str], target_path: Path | str) -> Iterator[tuple[str, str]]:
    """The pairs of two text files, plain or compressed, one sentence per line.

    The source may have several files, whose lines are joined by TABs. Raises UserError for a missing or empty file,
    bytes that are not UTF-8, different numbers of lines, or a TAB in a line of one of several files.
    """
    paths = [*source_paths, target_path]
    files = [iterate_lines(path) for path in paths]
    number = 0
    for number, lines in enumerate(zip_longest(*files), start=1):
        if None in lines:
            ended = [path for path, line in zip(paths, lines, strict=True) if line is None]
            _refuse_lengths(paths, files, ended, number)
        *sources, target = lines
        if len(sources) > 1:
            for path, line in zip(paths, sources, strict=False):
                if "\t" in line:
                    raise UserError(
                        f"{path}, line {number}: {shown(line)} has a TAB, by which the files are joined; remove it"
                    )
        yield "\t".join(sources), target
    if number == 0:
        raise UserError(f"{paths[0]}: the file is empty")


def _refuse_lengths(
    paths: Sequence[Path | str], files: Sequence[Iterator[str]], ended: Sequence[Path | str], number: int
) -> NoReturn:
    """UserError: some of these files have ended before the line of this number, and others have not."""
    if number == 1:
        raise UserError(f"{ended[0]}: the file is empty")
    counts = [
        number - 1 if path in ended else number + sum(1 for _ in file) for path, file in zip(paths, files, strict=True)
    ]
    path, count = next(each for each in zip(paths, counts, strict=True) if each[1] != counts[-1])
    raise UserError(
        f"{path} has {count} lines and {paths[-1]} has {counts[-1]}; line i of one must belong to line i of the other"
    )


def read_tsv(path: Path | str, columns: Columns = (0, 1)) -> ParallelCorpus:
    """A corpus from a file of tab-separated columns, plain or compressed; columns and errors as in `iterate_tsv`."""
    return ParallelCorpus.of(iterate_tsv(path, columns), str(path))


def iterate_tsv(path: Path | str, columns: Columns = (0, 1)) -> Iterator[tuple[str, str]]:
    """The pairs of a file of tab-separated columns, plain or compressed.

    `columns` are the indices of the source and the target column, counted from 0. The source may have several, which
    are joined by TABs. Raises UserError for a missing or empty file, bytes that are not UTF-8, a column below 0, and,
    with the line number, a line that has too few columns.
    """
    sources = (columns[0],) if isinstance(columns[0], int) else columns[0]
    target = columns[1]
    _require_columns(*sources, target)
    needed = max(*sources, target) + 1
    number = 0
    for number, line in enumerate(iterate_lines(path), start=1):
        row = line.split("\t")
        if len(row) < needed:
            raise UserError(
                f"{path}, line {number}: {len(row)} tab-separated columns, at least {needed} are needed; put a TAB "
                f"between two columns"
            )
        yield "\t".join([row[each] for each in sources]), row[target]
    if number == 0:
        raise UserError(f"{path}: the file is empty")


def iterate_pairs(files: Sequence[Path], columns: tuple[int, int] = (0, 1)) -> Iterator[tuple[str, str]]:
    """The pairs of two files, or of one with tabs, one after the other: they need not fit into memory."""
    return iterate_parallel(files[:1], files[1]) if len(files) == 2 else iterate_tsv(files[0], columns)


def _require_columns(*columns: int) -> None:
    if min(columns) < 0:
        raise UserError(f"columns {' and '.join(map(str, columns))}: columns are counted from 0")


def find_pairs(folder: Path, names: Iterable[str] = ()) -> dict[str, tuple[Path, ...]]:
    """The parallel files in a folder, by the name of their part, such as `train`: two files, or one .tsv.

    The two files of a part have names that differ in the last suffix alone (`train.en.gz`, `train.de.gz`). `names` are
    the files to consider, source before target; by default all files, in alphabetical order. Raises UserError for a
    missing folder, and for one without such files.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    found: dict[str, list[Path]] = {}
    for name in names or sorted(path.name for path in folder.iterdir()):
        part, _, side = without_packing(name).rpartition(".")
        if part and side not in _ANNOTATIONS and (folder / name).is_file():
            found.setdefault(part, []).append(folder / name)
    pairs = {
        part: tuple(paths)
        for part, paths in found.items()
        if len(paths) == 2 or (len(paths) == 1 and without_packing(paths[0].name).endswith(".tsv"))
    }
    if not pairs:
        raise UserError(f"{folder}: no two files here differ in their last suffix alone, and none is a .tsv")
    return pairs


def languages_of(paths: Sequence[Path], columns: tuple[int, int] = (0, 1)) -> Languages | None:
    """The languages in the names of parallel files; None if the names do not tell both.

    Two files: their suffixes (`train.en.gz`, `train.de.gz`), or the beginnings of their names (`en_nheb.txt.gz`,
    `de_elb1905.txt.gz`). One TSV: the beginning of its name, a language for each column (`eng-fra.tsv.gz`).
    """
    _require_columns(*columns)
    names = [without_packing(path.name) for path in paths]
    if len(names) == 1:
        match = re.match(r"([a-z]{2,3})-([a-z]{2,3})\b", names[0])
        if match is None or max(columns) > 1:
            return None
        return language_code(match[1 + columns[0]]), language_code(match[1 + columns[1]])
    if not names:
        return None
    for pattern in (r".*\.([a-z]{2,3})", r"([a-z]{2})[_-].*"):
        source, target = (match[1] if (match := re.fullmatch(pattern, name)) else "" for name in names)
        if source and target and source != target and not {source, target} & _NO_LANGUAGES:
            return language_code(source), language_code(target)
    return None


@dataclass(frozen=True)
class SideStatistics:
    """Counts of one side of a corpus, in whitespace-separated words."""

    tokens: int  # running words
    types: int  # distinct words
    mean_length: float  # words per line
    median_length: float
    max_length: int


@dataclass(frozen=True)
class CorpusStatistics:
    """Number of pairs, and the counts of both sides."""

    pairs: int
    source: SideStatistics
    target: SideStatistics


def corpus_statistics(corpus: ParallelCorpus) -> CorpusStatistics:
    """Count pairs and words. Raises UserError for an empty corpus."""
    if not len(corpus):
        raise UserError(f"{corpus.name}: no pair to count")
    return CorpusStatistics(len(corpus), _side_statistics(corpus.source), _side_statistics(corpus.target))


def _side_statistics(lines: Sequence[str]) -> SideStatistics:
    words = [line.split() for line in lines]
    lengths = [len(line) for line in words]
    types = {word for line in words for word in line}
    return SideStatistics(sum(lengths), len(types), fmean(lengths), median(lengths), max(lengths))


@dataclass(frozen=True)
class FilteredPairs:
    """How many pairs were kept, and how many were dropped for which reason. `str()` is a summary."""

    kept: int
    blank: int
    too_long: int
    limit: str  # of the length, with its key

    def __str__(self) -> str:
        dropped = [f"{self.blank:,} with a blank side"] if self.blank else []
        dropped += [f"{self.too_long:,} longer than {self.limit}"] if self.too_long else []
        if not dropped:
            return f"{self.kept:,} pairs"
        total = self.kept + self.blank + self.too_long
        return f"{self.kept:,} of {total:,} pairs (dropped: {', '.join(dropped)})"


def usable_pairs(
    source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64], max_length: int
) -> NDArray[np.bool_]:
    """(pairs,): whether neither side is blank, or has more than `max_length` positions (`</s>` not counted).

    A side is blank if its length is 0, or below: a blank line has no `</s>` to leave out.
    """
    import numpy as np  # here, as the commands that only read files do without

    shorter, longer = np.minimum(source_lengths, target_lengths), np.maximum(source_lengths, target_lengths)
    return (shorter > 0) & (longer <= max_length)


def filter_pairs(
    name: str, lengths: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], max_length: int, key: str
) -> FilteredPairs:
    """Counts the pairs that are usable and those that are not.

    `lengths` are the source and target lengths of all pairs, in parts; `name` is the name of the corpus, `key` that of
    the option `max_length`. Raises UserError if no pair is usable.
    """
    import numpy as np

    total = kept = blank = 0
    for source, target in lengths:
        total += len(source)
        kept += int(np.count_nonzero(usable_pairs(source, target, max_length)))
        blank += int(np.count_nonzero(np.minimum(source, target) <= 0))
    filtered = FilteredPairs(kept, blank, total - kept - blank, f"{key}={max_length}")
    if not kept:
        raise UserError(f"{name}: no pair is left: {filtered}; check the files, or raise the limit")
    return filtered


def refuse_no_text(texts: Iterable[object], name: str, first: int = 0) -> None:
    """UserError for None, the NaN of an empty cell in a table, and half a surrogate pair, which no file can hold."""
    for number, text in enumerate(texts, start=first):
        if not isinstance(text, str):
            raise UserError(f"{name} {number}: {text!r} is not text; give a string, '' for a sentence that is missing")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"{text[error.start]!r} at character {error.start}"
            raise UserError(f"{name} {number}: {half} is half a surrogate pair; remove it") from None


class Split(NamedTuple):
    """A corpus in three parts that have no source sentence in common."""

    train: ParallelCorpus
    validation: ParallelCorpus
    test: ParallelCorpus

    def save(self, folder: Path, languages: Languages) -> dict[str, tuple[Path, Path]]:
        """Write `train.en`, `train.de`, `dev.en` and so on, plain text, one sentence per line; return them by part.

        Raises UserError, before anything is written, if a file of that name exists with another content.
        """
        written: dict[str, tuple[Path, Path]] = {}
        contents: dict[Path, bytes] = {}
        for part, corpus in self._asdict().items():
            name = "dev" if part == "validation" else part
            source, target = (folder / f"{name}.{language}" for language in languages)
            written[part] = source, target
            for path, lines in ((source, corpus.source), (target, corpus.target)):
                contents[path] = "".join(f"{line}\n" for line in lines).encode()
        write_new(contents)
        return written


def split_by_source(corpus: ParallelCorpus, *, validation: int, test: int, seed: int) -> Split:
    """Split a corpus at random by source sentence: all translations of a sentence go to the same part.

    `validation` and `test` are numbers of distinct source sentences. A split by lines would leak, because corpora such
    as Tatoeba's contain several translations of one sentence. Raises UserError if none would be left for training.
    """
    sentences = list(dict.fromkeys(corpus.source))
    if validation + test >= len(sentences):
        raise UserError(
            f"{corpus.name}: {validation} validation and {test} test sentences leave none to train on; "
            f"the corpus has {len(sentences)} distinct source sentences"
        )
    random.Random(seed).shuffle(sentences)
    part_of = dict.fromkeys(sentences[:test], 2)
    part_of |= dict.fromkeys(sentences[test : test + validation], 1)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for index, sentence in enumerate(corpus.source):
        parts[part_of.get(sentence, 0)].append(index)
    return Split(*map(corpus.select, parts))
