"""Which target tokens a source token is translated by, learnt from parallel text by the first of IBM's models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.encoded import EncodedSentences
from seq2seq_attn.text.files import write_bytes
from seq2seq_attn.text.vocabulary import EOS

TRANSLATIONS = 100  # kept of a source token
ITERATIONS = 5
CHUNK = 2_000  # pairs: a million links or less, where sentences are of common lengths

Links = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]


class Lexicon(NamedTuple):
    """Target tokens that a translation may be made of, best first."""

    translations: NDArray[np.int64]  # (source vocabulary, TRANSLATIONS); `</s>` where a token has no more
    frequent: NDArray[np.int64]  # (target vocabulary,) by their number in the training text

    def save(self, path: Path) -> None:
        write_bytes(path, save(self._asdict()))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        try:
            return cls(**load_file(path))
        except (SafetensorError, TypeError, OSError) as error:
            raise UserError(f"{path}: no lexicon, or not whole ({error}); delete it, and it is learnt anew") from None


def learn_lexicon(sources: EncodedSentences, targets: EncodedSentences, source_size: int, target_size: int) -> Lexicon:
    """The lexicon of a parallel text in vocabularies of these sizes.

    IBM model 1: p(y | x) ∝ Π_i Σ_j t(y_i | x_j), t by expectation maximisation from a uniform start (Brown et al. 1993,
    sec. 4.1). The `</s>` that closes a source takes the part of their empty word, which every target token may come of.
    """

    def links() -> Links:
        return _links(sources, targets, target_size)

    known = np.unique(np.concatenate([np.unique(entries) for entries, _ in links()]))
    source, target = np.divmod(known, target_size)
    probability = _translation_probabilities(links, known, source)
    best_first = np.lexsort((-probability, source))  # by source token, as `source` is already
    rank = np.arange(len(known)) - np.searchsorted(source, source)
    kept = rank < TRANSLATIONS
    translations = np.full((source_size, TRANSLATIONS), EOS)
    translations[source[kept], rank[kept]] = target[best_first[kept]]
    counts = np.bincount(targets.ids, minlength=target_size)
    return Lexicon(translations, np.argsort(-counts, kind="stable"))


def _translation_probabilities(
    links: Callable[[], Links], known: NDArray[np.int64], source: NDArray[np.int64]
) -> NDArray[np.float64]:
    """t(y | x) of each known entry (x, y)."""
    probability: NDArray[np.float64] = np.ones(len(known))
    for _ in range(ITERATIONS):
        expected = np.zeros(len(known))
        for entries, place in links():
            entry = np.searchsorted(known, entries)
            share = probability[entry]
            share /= np.bincount(place, share)[place]  # of y_i, what comes of x_j
            expected += np.bincount(entry, share, len(known))
        probability = expected / np.bincount(source, expected)[source]
    return probability


def _links(sources: EncodedSentences, targets: EncodedSentences, target_size: int) -> Links:
    """Each y_i with each x_j of its pair, a chunk of pairs at a time: entries x_j V + y_i, and which y of the chunk."""
    for first in range(0, len(sources), CHUNK):
        last = min(first + CHUNK, len(sources))
        target_lengths = targets.lengths[first:last]
        count = np.repeat(sources.lengths[first:last], target_lengths)  # of each y: as many as its pair has x
        from_first = np.repeat(sources.offsets[first:last], target_lengths) - (np.cumsum(count) - count)
        x = sources.ids[np.arange(count.sum()) + np.repeat(from_first, count)].astype(np.int64)
        y = np.repeat(targets.ids[targets.offsets[first] : targets.offsets[last]], count)
        yield x * target_size + y, np.repeat(np.arange(len(count)), count)
