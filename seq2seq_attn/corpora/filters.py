"""Filters of pairs, each with a count: what is blank, copied, of very different lengths, in another language, repeated.

A pair is read, judged and written by itself. In memory there is a byte for each pair, and of `drop_duplicates` the
hashes of a share of them: those of all are in temporary files.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from seq2seq_attn.corpora.corpus import Languages
from seq2seq_attn.errors import UserError, needing
from seq2seq_attn.options import FilterOptions

# Why a pair is dropped, in the order in which it is judged; a verdict is an index into this, and 0 is to keep it.
REASONS = ("", "blank", "copied", "length ratio", "language", "duplicate")
BLANK, COPIED, RATIO, LANGUAGE, DUPLICATE = range(1, len(REASONS))

BUCKETS = 64  # files of hashes: each has the pairs whose hashes have the same remainder
BUFFER = 1 << 14  # hashes of a bucket in memory

Pairs = Iterable[tuple[str, str]]


class FilterReport(NamedTuple):
    """How many pairs were kept, and dropped for which reason; each counts for the first reason that it has."""

    pairs: int
    kept: int
    dropped: dict[str, int]  # by reason, without those that nobody asked for
    first: dict[str, int]  # the line of the first pair that was dropped for it, from 1

    def __str__(self) -> str:
        lines = [f"{self.kept:,} of {self.pairs:,} pairs kept"]
        for reason, count in self.dropped.items():
            where = f", the first in line {self.first[reason]:,}" if count else ""
            lines.append(f"  {reason}: {count:,} dropped ({100 * count / max(1, self.pairs):.2f} %){where}")
        return "\n".join(lines)


class PairFilter:
    """What an option says of a pair alone, whatever the other pairs are.

    Raises:
        UserError: The library for languages is not installed, or does not know one of them.
    """

    def __init__(self, options: FilterOptions, languages: Languages | None = None) -> None:
        self.options = options
        self._probabilities: Callable[[str], dict[str, float]] | None = None
        self.languages = languages
        if options.min_language is None:
            return
        if languages is None:
            raise UserError(
                "min_language: the names of the files tell no languages; give source_language and target_language"
            )
        identifier = _identifier()
        if unknown := [code for code in languages if code not in identifier.labels]:
            known = ", ".join(sorted(identifier.labels))
            raise UserError(f"min_language: py3langid does not know {unknown[0]!r}; it knows {known}")
        self._probabilities = lambda text: dict(identifier.rank(text))

    def verdict(self, source: str, target: str) -> int:
        """The index in `REASONS` of why the pair is dropped; 0: it is kept."""
        source, target = source.strip(), target.strip()
        if not source or not target:
            return BLANK
        if self.options.drop_copied and source == target:
            return COPIED
        ratio = self.options.max_ratio
        if ratio is not None and max(len(source), len(target)) > ratio * min(len(source), len(target)):
            return RATIO
        if self._probabilities is not None and self.languages is not None:
            least = self.options.min_language or 0.0
            for text, language in zip((source, target), self.languages, strict=True):
                if self._probabilities(text)[language] < least:
                    return LANGUAGE
        return 0


@cache
def _identifier() -> Any:
    """The language identifier of the library, which reads its model for a second."""
    with needing("min_language"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def verdicts(
    pairs: Pairs, options: FilterOptions, languages: Languages | None = None, progress: Callable[[int], object] = int
) -> tuple[bytearray, FilterReport]:
    """The verdict on each pair, as indices in `REASONS`, and their counts.

    A duplicate is one of a pair before it that no other filter drops. It is recognized by 64 bits of a hash: of 100
    million different pairs, one is taken for another with a probability of 0.0003.

    Args:
        pairs: Sources and targets.
        options: The filters.
        languages: The languages of both sides, for `min_language`.
        progress: Called with the number of pairs, every now and then.

    Raises:
        UserError: As by `PairFilter`.
    """
    judge, found, key = PairFilter(options, languages).verdict, bytearray(), _KEYS[options.drop_duplicates or "pairs"]
    with ExitStack() as stack:
        repeated = _Repeated(stack) if options.drop_duplicates is not None else None
        for row, (source, target) in enumerate(pairs):
            found.append(verdict := judge(source, target))
            if repeated is not None and not verdict:
                repeated.add(row, key(source.strip(), target.strip()))
            if row % 10_000 == 9_999:
                progress(10_000)
        progress(len(found) % 10_000)
        for row in () if repeated is None else repeated.rows():
            found[row] = DUPLICATE
    asked = {
        BLANK: True,
        COPIED: options.drop_copied,
        RATIO: options.max_ratio is not None,
        LANGUAGE: options.min_language is not None,
        DUPLICATE: options.drop_duplicates is not None,
    }
    dropped = {REASONS[reason]: found.count(reason) for reason, is_asked in asked.items() if is_asked}
    first = {REASONS[reason]: found.index(reason) + 1 for reason in asked if reason in found}
    return found, FilterReport(len(found), found.count(0), dropped, first)


_KEYS: dict[str, Callable[[str, str], str]] = {
    "pairs": lambda source, target: f"{source}\n{target}",
    "sources": lambda source, target: source,
    "targets": lambda source, target: target,
}


class _Repeated:
    """The rows whose text is that of an earlier row, by hashes that are kept in files."""

    def __init__(self, stack: ExitStack) -> None:
        """The files are closed, and thereby deleted, with the stack."""
        self.files = [stack.enter_context(TemporaryFile()) for _ in range(BUCKETS)]  # noqa: SIM115
        self.buffers = [array("Q") for _ in range(BUCKETS)]

    def add(self, row: int, text: str) -> None:
        hashed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        buffer = self.buffers[bucket := hashed % BUCKETS]
        buffer.append(hashed)
        buffer.append(row)
        if len(buffer) >= BUFFER:
            buffer.tofile(self.files[bucket])
            del buffer[:]

    def rows(self) -> Iterator[int]:
        import numpy as np  # here, as the commands that only read files do without

        for file, buffer in zip(self.files, self.buffers, strict=True):
            buffer.tofile(file)
            file.seek(0)
            entries = np.frombuffer(file.read(), dtype=np.uint64).reshape(-1, 2)
            _, firsts = np.unique(entries[:, 0], return_index=True)  # the first of equals
            yield from np.delete(entries[:, 1], firsts).tolist()
