"""Where the arms differ, as comma-separated values: a line a number, for a data frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from seq2seq_attn.report.as_csv import csv_text
from seq2seq_attn.report.where_tables import AGREEMENT, breakdowns
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.where import Breakdown, LinkAgreement, Rates


class Row(NamedTuple):
    """One number, not rounded; `low` and `high` are its 95 % interval, where it has one."""

    table: str
    group: str  # of sentences or words; of the agreement the other arm
    arm: str
    measure: str
    value: float
    low: float | None = None
    high: float | None = None
    of: float | None = None  # sentences of a group; the whole that a rate is a part of
    bounds: str = ""  # of the group, where each arm is grouped by its own


def where_as_csv(results: Results) -> str:
    """Breakdowns, rates and agreement of links under a line of headers; no text at all where there is none of them."""
    rows = list(_rows(results))
    return csv_text([Row._fields, *rows]) if rows else ""


def _rows(results: Results) -> Iterator[Row]:
    for breakdown in breakdowns(results):
        yield from _groups(breakdown)
    if results.where is not None:
        for rates in results.where.rates:
            yield from _rates(rates)
        if results.where.agreement is not None:
            yield from _agreement(results.where.agreement)


def _groups(breakdown: Breakdown) -> Iterator[Row]:
    for arm, results in breakdown.arms.items():
        for label, group in zip(breakdown.groups, results, strict=True):
            if group is None:
                continue
            of, bounds = group.sentences, group.bounds
            yield Row(breakdown.name, label, arm, "BLEU", group.bleu, group.low, group.high, of, bounds)
            yield Row(breakdown.name, label, arm, "chrF", group.chrf, of=of, bounds=bounds)
            if group.words is not None:
                yield Row(breakdown.name, label, arm, "source words", group.words, of=of, bounds=bounds)


def _rates(rates: Rates) -> Iterator[Row]:
    for arm, values in rates.arms.items():
        for label, rate in zip(rates.groups, values, strict=True):
            if rate is not None:
                yield Row(rates.name, label, arm, "rate", rate.value, rate.low, rate.high, rate.of)


def _agreement(links: LinkAgreement) -> Iterator[Row]:
    for arm, row in zip(links.arms, links.f1, strict=True):
        for other, value in zip(links.arms, row, strict=True):
            if value is not None:
                yield Row(AGREEMENT, other, arm, "F1", value)
