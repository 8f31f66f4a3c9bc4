"""Scores of groups of test sentences, by a property of the sentences such as the length of their source.

The score by source length shows what attention is for (Bahdanau et al., 2015, Figure 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.counts import CorpusCounts

BAND_ENDS = (10, 20, 30, 40, 50)  # upper ends of the bands of source lengths, in words


@dataclass(frozen=True)
class Band:
    """The values from `low` to `high`, both included; `high=None` has no upper bound."""

    low: int
    high: int | None

    def __post_init__(self) -> None:
        if self.high is not None and self.high < self.low:
            raise UserError(f"no length is in the band {self}; write the smaller number first")

    def __contains__(self, length: int) -> bool:
        return self.low <= length and (self.high is None or length <= self.high)

    def __str__(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def length_bands(ends: Sequence[int] = BAND_ENDS, low: int = 1) -> list[Band]:
    """Bands from `low` on: one up to each of these upper ends, and one without an upper bound after the last."""
    lows = [low, *(end + 1 for end in ends)]
    return [Band(low, high) for low, high in zip(lows, (*ends, None), strict=True)]


def scores_by_length(counts: CorpusCounts, lengths: Sequence[int], bands: Sequence[Band]) -> list[dict[str, Any]]:
    """The scores of the sentences in each band of source lengths, as plain values for JSON.

    The counts of a band are summed, and the scores of sentences are not averaged. Bands without a sentence are left
    out, and so are sentences outside all bands. Of several runs, the score is their mean.
    """
    return [
        {
            "low": band.low,
            "high": band.high,
            "sentences": len(rows),
            "score": float(counts.select(rows).scores().mean()),
        }
        for band, rows in rows_in_bands(lengths, bands).items()
    ]


def rows_in_bands(lengths: Sequence[int], bands: Sequence[Band]) -> dict[Band, list[int]]:
    """The indices of the sentences whose lengths are in each band; bands without any are left out."""
    rows = {band: [row for row, length in enumerate(lengths) if length in band] for band in bands}
    return {band: each for band, each in rows.items() if each}


class Group(NamedTuple):
    """The sentences of a test set that share a label."""

    label: str
    rows: list[int]  # their indices in the test set, counted from 0


def in_bands(values: Sequence[int | None], bands: Mapping[str, Band]) -> list[Group]:
    """One group per band, including empty ones; sentences without a value are in none."""
    known = [(row, value) for row, value in enumerate(values) if value is not None]
    return [Group(label, [row for row, value in known if value in band]) for label, band in bands.items()]


def length_quantiles(lengths: Sequence[int], least: int) -> list[Band]:
    """Up to five bands of about equally many sentences, at least `least` in each; none if two cannot be made.

    The bounds are quantiles of the lengths; equal lengths stay together. The last band has no upper bound.
    """
    ranked = sorted(lengths)
    for count in range(min(5, len(ranked) // least), 1, -1):
        ends = [ranked[math.ceil(len(ranked) * part / count) - 1] for part in range(1, count)]
        if ends == sorted(set(ends)):
            bands = length_bands(ends, ranked[0])
            if all(sum(length in band for length in lengths) >= least for band in bands):
                return bands
    return []


def in_thirds(values: Sequence[float | None]) -> list[Group]:
    """Three groups of about equal size: to a, a to b, over b. No group if no sentence has a value.

    The bounds a and b are the values at one and at two thirds of the ranks, rounded up to two decimals, and belong
    to the group below; so the labels are exact. Equal values stay together, so groups may differ in size and be empty.
    """
    ranked = sorted(value for value in values if value is not None)
    if not ranked:
        return []
    first, second = (_up(ranked[math.ceil(len(ranked) * part / 3) - 1]) for part in (1, 2))
    limits = [(-math.inf, first), (first, second), (second, math.inf)]
    labels = [f"to {first:g}", f"{first:g} to {second:g}", f"over {second:g}"]
    # Rounded like the bounds: a mean of 1.3500000000000003 belongs below the bound 1.35.
    rounded = [None if value is None else _up(value) for value in values]
    return [
        Group(label, [row for row, value in enumerate(rounded) if value is not None and low < value <= high])
        for label, (low, high) in zip(labels, limits, strict=True)
    ]


def _up(value: float) -> float:
    # A value that exceeds a multiple only by a rounding error is not rounded up.
    return math.ceil(round(value * 100, 6)) / 100
