"""Test sentences in groups, by a property that each of them has, and what a system scores in a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seq2seq_attn.evaluation.bootstrap import bleu_interval
from seq2seq_attn.evaluation.counts import BleuCounts, ChrfCounts
from seq2seq_attn.evaluation.length import Band


class Group(NamedTuple):
    """The sentences of a test set that share a label."""

    label: str
    rows: list[int]  # their places in the test set, counted from 0


class GroupScore(NamedTuple):
    """Means over the runs of a system."""

    sentences: int
    bleu: float  # n-grams are pooled over the group, sentence scores are not averaged
    low: float  # 95 % interval of BLEU over resampled sentences of the group
    high: float
    chrf: float


def group_score(rows: Sequence[int], bleu: BleuCounts, chrf: ChrfCounts) -> GroupScore:
    """BLEU with its interval, and chrF, of these sentences as a corpus; there must be one at least."""
    own = bleu.of_sentences(rows)
    interval = bleu_interval(own)
    mean_chrf = float(chrf.of_sentences(rows).chrf().mean())
    return GroupScore(len(rows), float(own.bleu().mean()), interval.low, interval.high, mean_chrf)


def in_bands(values: Sequence[int | None], bands: Mapping[str, Band]) -> list[Group]:
    """A group a band, by its label, empty ones too; sentences without a value are in none."""
    known = [(row, value) for row, value in enumerate(values) if value is not None]
    return [Group(label, [row for row, value in known if value in band]) for label, band in bands.items()]


def in_thirds(values: Sequence[float | None], digits: int = 2) -> list[Group]:
    """Three groups of about the same size: to a, a to b, over b. None where no sentence has a value.

    The bounds a and b are the values at one and at two thirds of the ranks, rounded up to so many digits, and belong to
    the group below; so the labels are exact. Equal values stay together, so groups may differ in size, and be empty.
    """
    ranked = sorted(value for value in values if value is not None)
    if not ranked:
        return []
    first, second = (_up(ranked[math.ceil(len(ranked) * part / 3) - 1], digits) for part in (1, 2))
    limits = [(-math.inf, first), (first, second), (second, math.inf)]
    labels = [f"to {first:g}", f"{first:g} to {second:g}", f"over {second:g}"]
    return [
        Group(label, [row for row, value in enumerate(values) if value is not None and low < value <= high])
        for label, (low, high) in zip(labels, limits, strict=True)
    ]


def _up(value: float, digits: int) -> float:
    # What is above a multiple by an error of rounding alone stays at it.
    scale: int = 10**digits
    return math.ceil(round(value * scale, 6)) / scale
