"""Rates of arms over the words of their translations: rare ones found, things said twice, things left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from seq2seq_attn.evaluation.resampling import rate_interval
from seq2seq_attn.evaluation.words import FREQUENCIES, Bag, content_words, found, lengths, missing, repeated, repeats
from seq2seq_attn.results.results import Rate, Rates

Arms = Mapping[str, Sequence[Sequence[Bag]]]  # the translations of each run
Count = Callable[[Bag, Bag], tuple[int, int]]  # hypothesis, reference: a part and a whole


def found_words(arms: Arms, references: Sequence[Bag], seen: Mapping[str, int]) -> Rates | None:
    """How many of the reference's words the translations have, by how often the training text has them."""
    return _rates(
        "words of the reference found",
        "Share of the reference's words that the translation has, too, by how often the training text has them.",
        {label: partial(found, counts=seen, band=band) for label, band in FREQUENCIES.items()},
        arms,
        references,
    )


def faults(arms: Arms, references: Sequence[Bag]) -> Rates | None:
    """What is said twice, and what is left out."""
    content = content_words(references)
    return _rates(
        "repetition and omission",
        "Repeated: of all bigrams those that the translation has more than once, and more often than the reference; "
        "and sentences with any. Missing: of the reference's content words those that the translation lacks. Length: "
        "words of the translation, of the reference's.",
        {
            "repeated bigrams": repeated,
            "sentences that repeat": repeats,
            "content words missing": partial(missing, content=content),
            "length": lengths,
        },
        arms,
        references,
    )


def _rates(name: str, meaning: str, counts: Mapping[str, Count], arms: Arms, references: Sequence[Bag]) -> Rates | None:
    """A rate an arm and kind of count; None where fewer than two kinds have something to count."""
    columns = {
        label: [_rate([list(map(each, run, references)) for run in runs]) for runs in arms.values()]
        for label, each in counts.items()
    }
    filled = {label: column for label, column in columns.items() if any(column)}
    rows = zip(*filled.values(), strict=True)
    return Rates(name, meaning, tuple(filled), dict(zip(arms, rows, strict=True))) if len(filled) > 1 else None


def _rate(runs: Sequence[Sequence[tuple[int, int]]]) -> Rate | None:
    """None where a run has nothing to count."""
    counts = np.array(runs, dtype=np.int64)
    parts, wholes = counts.sum(axis=1).T
    if not wholes.all():
        return None
    interval = rate_interval(counts)
    return Rate(float((parts / wholes).mean()), interval.low, interval.high, round(wholes.mean()))
