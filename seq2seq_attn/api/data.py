"""Corpora: what the package contains or can download, statistics, and splits.

In every function a corpus is one that `corpora` lists, by name; a folder with parallel files; one file with a tab
between a source and its target; or two files, as in `("all.en", "all.de")`. Files may be compressed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from seq2seq_attn.api.tables import Listing, html_records
from seq2seq_attn.corpora.corpus import (
    CorpusStatistics,
    Languages,
    ParallelCorpus,
    corpus_statistics,
    find_pairs,
    iterate_pairs,
    languages_of,
    read_parallel,
    read_tsv,
    split_by_source,
)
from seq2seq_attn.corpora.download import DownloadProgress, KnownCorpus, download_files, find_corpus, known_corpora
from seq2seq_attn.corpora.embedded import EMBEDDED, copy_embedded
from seq2seq_attn.corpora.filters import FilterReport, verdicts
from seq2seq_attn.corpora.languages import language_code
from seq2seq_attn.corpora.named import folder_of, get_named, is_named
from seq2seq_attn.corpora.unknown_words import UnknownCount, UnknownWords
from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.reading import open_text
from seq2seq_attn.files.writing import explained, rename, sync, unfinished_in
from seq2seq_attn.options import FilterOptions, PairOptions, SplitOptions, takes
from seq2seq_attn.runs import find_run
from seq2seq_attn.strict import parse

__all__ = [
    "Corpora", "CorpusParts", "PartStatistics", "PreparedFiles", "SplitFiles", "corpora", "get", "prepare", "split",
    "stats",
]  # fmt: skip

DOWNLOADED = Path("data/downloaded")

Corpus = Path | str | tuple[Path | str, Path | str]


def corpora() -> Corpora:
    """The corpora that the package contains or can download.

    >>> [corpus.name for corpus in s2s.data.corpora() if corpus.is_embedded]
    ['tom-and-jerry', 'tom-and-jerry-short', 'copy', 'reverse', 'sort']
    """
    return Corpora(known_corpora().values())


class Corpora(Listing[KnownCorpus]):
    """Corpora, with their sizes, licenses and citations."""

    def lines(self) -> dict[str, list[str]]:
        return {
            each.name: [
                each.description,
                f"size: {each.size}",
                f"license: {each.license}",
                f"seq2seq-attn data get {each.name}",
            ]
            for each in self
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per corpus."""
        shown = "name", "description", "size", "license", "page", "is_embedded"
        return [{key: getattr(each, key) for key in shown} for each in self]


def get(
    name: str,
    output: Path | str | None = None,
    *,
    from_folder: Path | str | None = None,
    progress: DownloadProgress | None = None,
) -> Path:
    """Writes a corpus into a folder.

    A corpus of the package is copied, others are downloaded. Files that are present and correct are left alone, and no
    other file is overwritten. The sha256 of every download is checked before it is written.

    Test sets of sacrebleu, such as `sacrebleu:wmt20:en-de`, are downloaded by that library. Training corpora of mtdata,
    such as `mtdata:Statmt-news_commentary-16-deu-eng`, are by the program `mtdata`, if it is on the PATH.

    Args:
        name: A corpus that `corpora` lists, `sacrebleu:SET:PAIR`, or `mtdata:ID`.
        output: The folder, by default `data/NAME` for a corpus of the package, else `data/downloaded/NAME`.
        from_folder: A folder from which the files are copied, or from its subfolder NAME, instead of being downloaded;
            of sacrebleu and mtdata, a copy of `~/.sacrebleu` or `~/.mtdata` from another machine.
        progress: Called with the address of a file, the bytes received so far, and their total if it is known.

    Returns:
        The folder.

    Raises:
        UserError: A file cannot be downloaded, or is another one; with its address and the remedy.

    >>> sorted(path.name for path in s2s.data.get("copy").glob("test.*"))
    ['test.align', 'test.source', 'test.target']
    """
    if is_named(name):
        place = Path(output or DOWNLOADED / folder_of(name))
        return get_named(name, place, None if from_folder is None else Path(from_folder))
    corpus = find_corpus(name)
    if corpus.is_embedded:
        if from_folder is not None:
            raise UserError(f"{name} is in the package; leave out the folder to copy it from")
        return copy_embedded(name, Path(output or Path("data", name)))
    source = None if from_folder is None else Path(from_folder)
    return download_files(corpus, Path(output or DOWNLOADED / name), source, progress)


def stats(corpus: Corpus, *, columns: tuple[int, int] = (0, 1), run: Path | str | None = None) -> CorpusParts:
    """Counts the pairs and the words of a corpus; words are separated by blanks.

    Args:
        corpus: The corpus.
        columns: Those of the source and the target in a file with tabs, counted from 0.
        run: A run, whose model says which words are unknown; by default, `train` says so for the other parts.

    Raises:
        UserError: A file is missing, or the two sides have different numbers of lines.

    >>> s2s.data.stats(("all.en", "all.de"))
    corpus  12 pairs
            en: 36 words (14 distinct), 3.0 per line (median 3, maximum 3)
            de: 36 words (14 distinct), 3.0 per line (median 3, maximum 3)
    """
    files = _files(corpus)
    read = {part: _read(paths, columns) for part, paths in files.items()}
    sides = {part: languages_of(files.get(part, ()), columns) or ("source", "target") for part in read}
    unknown = _unknown_to_train(read) if run is None else _unknown_to_run(read, Path(run))
    meaning = "not in train" if run is None else f"unknown to {run}"
    return CorpusParts(
        PartStatistics(part, pairs.name, sides[part], corpus_statistics(pairs), unknown.get(part), meaning)
        for part, pairs in read.items()
    )


def _unknown_to_train(parts: Mapping[str, ParallelCorpus]) -> dict[str, UnknownWords]:
    if "train" not in parts:
        return {}
    sources, targets = (set(_words(side)) for side in (parts["train"].source, parts["train"].target))

    def count(lines: Sequence[str], known: set[str]) -> UnknownCount:
        words = _words(lines)
        return UnknownCount(sum(word not in known for word in words), len(words))

    return {
        part: UnknownWords(count(pairs.source, sources), count(pairs.target, targets))
        for part, pairs in parts.items()
        if part != "train"
    }


def _words(lines: Sequence[str]) -> list[str]:
    return [word for line in lines for word in line.split()]


def _unknown_to_run(parts: Mapping[str, ParallelCorpus], run: Path) -> dict[str, UnknownWords]:
    from seq2seq_attn.corpora.codec import load_codecs  # imports NumPy and sentencepiece

    source, target = load_codecs(find_run(run))
    return {
        part: UnknownWords(source.count_unknown(pairs.source), target.count_unknown(pairs.target, pairs.source))
        for part, pairs in parts.items()
    }


class PartStatistics(NamedTuple):
    """The counts of one part of a corpus, such as `train`."""

    part: str
    name: str  # its files
    sides: tuple[str, str]  # the languages, if the names of the files tell them
    counts: CorpusStatistics
    unknown: UnknownWords | None = None  # None if there is nothing that words could be unknown to
    meaning: str = ""  # what they are unknown to


class CorpusParts(Listing[PartStatistics]):
    """The result of `stats`, one record per part."""

    def lines(self) -> dict[str, list[str]]:
        return {
            each.part: [
                f"{each.counts.pairs:,} pairs",
                *(
                    f"{side}: {words.tokens:,} words ({words.types:,} distinct), "
                    f"{words.mean_length:.1f} per line (median {words.median_length:g}, maximum {words.max_length})"
                    for side, words in zip(each.sides, (each.counts.source, each.counts.target), strict=True)
                ),
                *(
                    f"{side}: {count} {each.meaning}"
                    for side, count in zip(each.sides, each.unknown or (), strict=each.unknown is not None)
                ),
            ]
            for each in self
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per part and side."""
        return [
            {
                "part": each.part,
                "side": side,
                "pairs": each.counts.pairs,
                "words": words.tokens,
                "distinct words": words.types,
                "words per line": words.mean_length,
                "median": words.median_length,
                "maximum": words.max_length,
                "unknown": count and count.share,
            }
            for each in self
            for side, words, count in zip(
                each.sides, (each.counts.source, each.counts.target), each.unknown or (None, None), strict=True
            )
        ]


@takes(SplitOptions)
def split(corpus: Corpus, output: Path | str, **options: Any) -> SplitFiles:
    """Splits a corpus at random into training, validation and test sets, and writes their files into a folder.

    All targets of a source go to the same set, and pairs with a blank side are dropped. The files are
    `train.en`, `train.de`, `dev.en`, `dev.de`, `test.en` and `test.de`, with the languages as suffixes.

    Args:
        corpus: A corpus that is not generated in parts.
        output: The folder that the files are written into.
        **options: Fields of `seq2seq_attn.options.SplitOptions`.

    Returns:
        The files, and the configuration that names them.

    Raises:
        UserError: No sentence would be left for training, or a file exists with another content; nothing is written.

    >>> found = s2s.data.split(("all.en", "all.de"), "data/mine", validation=2, test=3)
    >>> found
    train: 7 pairs, validation: 2 pairs, test: 3 pairs
    data:
      train: {source: data/mine/train.en, target: data/mine/train.de}
      validation: {source: data/mine/dev.en, target: data/mine/dev.de}
      test: {source: data/mine/test.en, target: data/mine/test.de}
    text: {source_language: en, target_language: de}
    >>> print(s2s.Config(**found.config).data.test.source)
    data/mine/test.en
    """
    chosen = parse(SplitOptions, options)
    files = _files(corpus)
    if len(files) > 1:
        raise UserError(f"{corpus} contains {', '.join(files)}; name the file or files of one of them")
    (paths,) = files.values()
    languages = _languages(paths, chosen)
    pairs = _read(paths, chosen.columns)
    parts = split_by_source(
        pairs.select(pairs.filled), validation=chosen.validation, test=chosen.test, seed=chosen.seed
    )
    sizes = {part: len(its_pairs) for part, its_pairs in parts._asdict().items()}
    return SplitFiles(parts.save(Path(output), languages), sizes, languages)


@dataclass(frozen=True, repr=False)
class SplitFiles:
    """The result of `split`: the files of the three parts, and the configuration that names them."""

    files: Mapping[str, tuple[Path, Path]]  # source and target, by part
    sizes: Mapping[str, int]  # pairs, by part
    languages: Languages

    @property
    def config(self) -> dict[str, Any]:
        """The sections of a configuration that name the files and the languages: `train(found.config, "runs/mine")`."""
        return _configuration(self.files, self.languages)

    @property
    def yaml(self) -> str:
        """`config` as YAML, with each innermost mapping on one line, as the README writes it."""
        return _yaml(self.config)

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per part."""
        return [
            {"part": part, "pairs": self.sizes[part], "source": str(left), "target": str(right)}
            for part, (left, right) in self.files.items()
        ]

    def __repr__(self) -> str:
        return f"{', '.join(f'{part}: {size:,} pairs' for part, size in self.sizes.items())}\n{self.yaml}"

    def _repr_html_(self) -> str:
        return html_records(self.to_records())


@takes(FilterOptions)
def prepare(
    corpus: Corpus,
    output: Path | str | None = None,
    *,
    progress: Callable[[int], object] = lambda _: None,
    **options: Any,
) -> PreparedFiles:
    """Drops pairs of a corpus that are not worth training on, and counts them by reason.

    Pairs with a blank side are dropped always, the others as the options say. The corpus is read twice, pair by pair:
    memory is a byte for each pair. The order of the others does not change.

    Args:
        corpus: A corpus; of one in parts, `train` is taken.
        output: The folder for the files `train.en` and `train.de`, with the languages as suffixes; by default nothing
            is written, and pairs are only counted.
        progress: Called with the number of pairs, every now and then.
        **options: Fields of `seq2seq_attn.options.FilterOptions`.

    Returns:
        The counts, the files, and the configuration that names them.

    Raises:
        UserError: No pair is left, a file exists, or the library for languages is not installed.

    >>> found = s2s.data.prepare(("all.en", "all.de"), "data/kept", max_ratio=3, drop_duplicates="pairs")
    >>> found
    12 of 12 pairs kept
      blank: 0 dropped (0.00 %)
      length ratio: 0 dropped (0.00 %)
      duplicate: 0 dropped (0.00 %)
    data:
      train: {source: data/kept/train.en, target: data/kept/train.de}
    text: {source_language: en, target_language: de}
    """
    chosen = parse(FilterOptions, options)
    parts = _files(corpus)
    files = parts["train"] if "train" in parts else next(iter(parts.values()))
    languages = languages_of(files, chosen.columns)
    if output is not None or chosen.min_language is not None:
        languages = _languages(files, chosen)
    written = tuple(Path(output) / f"train.{code}" for code in languages or ()) if output is not None else ()
    for path in written:
        if path.exists():
            raise UserError(f"{path}: the file exists and nothing is overwritten; delete it, or choose another folder")
    found, report = verdicts(iterate_pairs(files, chosen.columns), chosen, languages, progress)
    if not report.kept:
        raise UserError(f"{' and '.join(map(str, files))}: no pair is left: {report}")
    if written:
        kept = (pair for pair, verdict in zip(iterate_pairs(files, chosen.columns), found, strict=True) if not verdict)
        _write_pairs(kept, written)
    return PreparedFiles(report, written, languages)


def _write_pairs(pairs: Iterable[tuple[str, str]], paths: Sequence[Path]) -> None:
    """Writes the two sides into the files of a folder, which get their names when both are complete."""
    folder = paths[0].parent
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished_in(folder, is_folder=True) as place:
            unfinished = [place / path.name for path in paths]
            with unfinished[0].open("wb") as left, unfinished[1].open("wb") as right:
                for source, target in pairs:
                    left.write(f"{source}\n".encode())
                    right.write(f"{target}\n".encode())
            for one, path in zip(unfinished, paths, strict=True):
                sync(one)
                rename(one, path)


@dataclass(frozen=True, repr=False)
class PreparedFiles:
    """The result of `prepare`: counts and, unless it only counted, files and the configuration that names them."""

    report: FilterReport
    files: tuple[Path, ...]  # source and target; none if nothing was written
    languages: Languages | None

    @property
    def config(self) -> dict[str, Any]:
        """The sections of a configuration that name the files and the languages; empty without files."""
        if not self.files or self.languages is None:
            return {}
        return _configuration({"train": self.files}, self.languages)

    @property
    def yaml(self) -> str:
        """`config` as YAML, as `split` writes it; empty without files."""
        return _yaml(self.config) if self.files else ""

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per reason."""
        dropped = self.report.dropped.items()
        return [{"reason": name, "pairs": n, "first line": self.report.first.get(name)} for name, n in dropped]

    def __repr__(self) -> str:
        return f"{self.report}\n{self.yaml}".strip()

    def _repr_html_(self) -> str:
        return html_records(self.to_records())


def _configuration(files: Mapping[str, Sequence[Path]], languages: Languages) -> dict[str, Any]:
    """The sections that name the two files of each part, and the languages."""
    return {
        "data": {part: {"source": str(left), "target": str(right)} for part, (left, right) in files.items()},
        "text": dict(zip(("source_language", "target_language"), languages, strict=True)),
    }


def _yaml(config: Mapping[str, Any]) -> str:
    text = yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True)
    return text.rstrip()


def _files(corpus: Corpus) -> Mapping[str, Sequence[Path]]:
    """The files of a corpus by part: two, or one with tabs.

    UserError: there is no such corpus, or its files are not here.
    """
    if isinstance(corpus, tuple):
        source, target = corpus
        return {"corpus": (Path(source), Path(target))}
    path = Path(corpus)
    if path.is_file():
        return {"corpus": (path,)}
    if path.is_dir():
        return find_pairs(path)
    if is_named(str(corpus)):
        place = DOWNLOADED / folder_of(str(corpus))
        if place.is_dir():
            return find_pairs(place)
        raise UserError(f"{place}: no such folder; run: seq2seq-attn data get {corpus}")
    if path.name != str(corpus) or path.suffix:
        raise UserError(f"{corpus}: no such file or folder")
    known = find_corpus(path.name)
    place = (EMBEDDED if known.is_embedded else DOWNLOADED) / known.name
    if place.is_dir():
        return known.find_pairs(place)
    raise UserError(f"{place}: no such folder; run: seq2seq-attn data get {corpus}")


def _read(files: Sequence[Path], columns: tuple[int, int]) -> ParallelCorpus:
    if len(files) == 2:
        if tuple(columns) != (0, 1):
            raise UserError(f"columns are those of one file with tabs, but there are two: {files[0]} and {files[1]}")
        return read_parallel(*files)
    (path,) = files
    with open_text(path) as stream:
        first = stream.readline()
    if first and b"\t" not in first:
        raise UserError(f"{path}, line 1: no tab; if it is one side of a corpus, give the other side as well")
    return read_tsv(path, columns)


def _languages(files: Sequence[Path], options: PairOptions) -> Languages:
    found = languages_of(files, options.columns) or (None, None)
    given = options.source_language or found[0], options.target_language or found[1]
    left, right = (name and language_code(name) for name in given)
    if left is None or right is None:
        names = " and ".join(map(str, files))
        raise UserError(f"{names}: no language codes in the names; give source_language and target_language")
    for code in (left, right):
        if not re.fullmatch(r"[\w-]+", code):
            raise UserError(f"{shown(code)} is not a language code: the suffix of files, of letters, digits and -")
    if left == right:
        raise UserError(
            f"both languages are {left}, so both sides would have the same file names; give two names, such as "
            f"{left}-1 and {left}-2"
        )
    return left, right
