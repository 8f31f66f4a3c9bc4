"""Probable target tokens of each source token, learned from parallel text with IBM model 1; for shortlists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import MAX_TRANSLATIONS

ITERATIONS = 5  # of expectation maximization

_CHUNK = 2_000  # pairs, at most about a million links for sentences of usual length
_Links = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]


class Lexicon(NamedTuple):
    """Candidate target tokens, best first."""

    translations: NDArray[np.int64]  # (source vocabulary, MAX_TRANSLATIONS), filled up with `</s>`
    frequent: NDArray[np.int64]  # (target vocabulary,), sorted by count in the training text

    def content(self) -> bytes:
        """The content of its file, in the format of safetensors."""
        return bytes(save(self._asdict()))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read a file with this `content`. Raises UserError for a file that is missing, truncated or invalid."""
        try:
            return cls(**load_file(path))
        except (SafetensorError, TypeError, OSError) as error:
            raise UserError(f"{path}: not a valid lexicon ({error}); delete it, and it will be learned again") from None


def learn_lexicon(sources: EncodedLines, targets: EncodedLines, source_size: int, target_size: int) -> Lexicon:
    """The lexicon of a parallel corpus, for vocabularies of these sizes.

    IBM model 1: p(y | x) ∝ Π_i Σ_j t(y_i | x_j), with t estimated by expectation maximization from a uniform start
    (Brown et al. 1993, sec. 4.1). The final `</s>` of a source plays the part of their empty word, which can generate
    any target token.
    """

    def links() -> _Links:
        return _linked_tokens(sources, targets, target_size)

    known = np.unique(np.concatenate([np.unique(entries) for entries, _ in links()]))
    source, target = np.divmod(known, target_size)
    probability = _translation_probabilities(links, known, source)
    best_first = np.lexsort((-probability, source))  # within each source token; `source` is sorted
    rank = np.arange(len(known)) - np.searchsorted(source, source)
    kept = rank < MAX_TRANSLATIONS
    translations = np.full((source_size, MAX_TRANSLATIONS), EOS)
    translations[source[kept], rank[kept]] = target[best_first[kept]]
    counts = np.zeros(target_size, np.int64)
    for pairs in _chunks(len(targets)):
        counts += np.bincount(targets.select(pairs).values, minlength=target_size)
    return Lexicon(translations, np.argsort(-counts, kind="stable"))


def _translation_probabilities(
    links: Callable[[], _Links], known: NDArray[np.int64], source: NDArray[np.int64]
) -> NDArray[np.float64]:
    """t(y | x) for each known entry (x, y)."""
    probability: NDArray[np.float64] = np.ones(len(known))
    for _ in range(ITERATIONS):
        expected = np.zeros(len(known))
        for entries, place in links():
            entry = np.searchsorted(known, entries)
            share = probability[entry]
            share /= np.bincount(place, share)[place]  # fraction of y_i that x_j accounts for
            expected += np.bincount(entry, share, len(known))
        probability = expected / np.bincount(source, expected)[source]
    return probability


def _linked_tokens(sources: EncodedLines, targets: EncodedLines, target_size: int) -> _Links:
    """Every (x_j, y_i) of every pair, in chunks of pairs: entries x_j V + y_i, and the index of the y in the chunk."""
    for pairs in _chunks(len(sources)):
        target_lengths = targets.lengths_of(pairs)
        count = np.repeat(sources.lengths_of(pairs), target_lengths)  # links per y: its source length
        from_first = np.repeat(sources.offsets[pairs], target_lengths) - (np.cumsum(count) - count)
        x = sources.values[np.arange(count.sum()) + np.repeat(from_first, count)].astype(np.int64)
        y = np.repeat(targets.select(pairs).values, count)
        yield x * target_size + y, np.repeat(np.arange(len(count)), count)


def _chunks(pairs: int) -> Iterator[NDArray[np.int64]]:
    return (np.arange(first, min(first + _CHUNK, pairs)) for first in range(0, pairs, _CHUNK))
