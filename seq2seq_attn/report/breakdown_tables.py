"""Where arms differ, as tables: one per breakdown, one per kind of rates, and one of link agreement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from seq2seq_attn.report.columns import NOTHING, Column, TableCell
from seq2seq_attn.results.results import ArmResult, Breakdown, GroupResult, LinkAgreement, Rate, Rates, Results

LENGTH = "source length"
AGREEMENT = "agreement of links"
EXPLAINED = (
    "For each group of test sentences BLEU with its 95 % interval over resampled sentences, and chrF; for each rate "
    "its interval."
)


class BreakdownTable(NamedTuple):
    """A table with the names of the arms in its first column."""

    name: str
    meaning: str
    columns: list[Column]
    breakdown: Breakdown | None = None  # that it shows; None: rates or link agreement
    in_cells: str = ""  # explains a cell where the table stands alone


def breakdown_tables(results: Results) -> Iterator[BreakdownTable]:
    """All tables that are not empty."""
    for breakdown in breakdowns(results):
        in_cells = "BLEU with its 95 % interval over resampled sentences, and chrF."
        yield BreakdownTable(breakdown.name, breakdown.meaning, _groups(breakdown), breakdown, in_cells)
    if results.where is not None:
        for rates in results.where.rates:
            in_cells = "With 95 % intervals over resampled sentences."
            yield BreakdownTable(rates.name, rates.meaning, _rates(rates), in_cells=in_cells)
        if results.where.agreement is not None:
            yield _agreement(results.where.agreement)


def breakdowns(results: Results) -> Iterator[Breakdown]:
    """All breakdowns, that by length first."""
    by_length = length_breakdown(results)
    if by_length is not None:
        yield by_length
    if results.where is not None:
        yield from results.where.breakdowns


def length_breakdown(results: Results) -> Breakdown | None:
    """The length bands as a breakdown; None for older files without chrF per band."""
    if any(band.chrf is None for arm in results.arms for band in arm.bleu_by_length):
        return None
    labels = tuple(band.label for band in results.arms[0].bleu_by_length)
    return Breakdown(LENGTH, "Words of the source.", labels, {arm.name: _bands(arm) for arm in results.arms})


def _bands(arm: ArmResult) -> tuple[GroupResult | None, ...]:
    return tuple(
        None
        if band.chrf is None or band.bleu_low is None or band.bleu_high is None
        else GroupResult(band.sentences, None, band.bleu, band.bleu_low, band.bleu_high, band.chrf)
        for band in arm.bleu_by_length
    )


def _groups(breakdown: Breakdown) -> list[Column]:
    arms = breakdown.arms
    return [
        Column("Arm", [TableCell(arm) for arm in arms]),
        *(
            Column(_header(breakdown, place), [_group(results[place]) for results in arms.values()])
            for place in range(len(breakdown.groups))
        ),
    ]


def _header(breakdown: Breakdown, place: int) -> str:
    """The label of a group, with its size if it is the same in all arms."""
    result = next(iter(breakdown.arms.values()))[place]
    label = breakdown.groups[place]
    return label if result is None or breakdown.by_own_groups else f"{label} ({size(result)})"


def size(result: GroupResult) -> str:
    """Number of sentences and their mean length."""
    return f"{result.sentences:,}" + ("" if result.words is None else f" of {result.words:.0f} words")


def _group(result: GroupResult | None) -> TableCell:
    if result is None:
        return NOTHING
    own = f"; {result.bounds}: {size(result)}" if result.bounds else ""
    detail = f"[{result.low:.1f}, {result.high:.1f}], chrF {result.chrf:.1f}{own}"
    return TableCell(f"{result.bleu:.1f}", detail, (result.bleu, result.low, result.high, result.chrf))


def _rates(rates: Rates) -> list[Column]:
    return [
        Column("Arm", [TableCell(arm) for arm in rates.arms]),
        *(
            Column(label, [_rate(values[place]) for values in rates.arms.values()])
            for place, label in enumerate(rates.groups)
        ),
    ]


def _rate(rate: Rate | None) -> TableCell:
    if rate is None:
        return NOTHING
    value, low, high = (100 * each for each in (rate.value, rate.low, rate.high))
    return TableCell(f"{value:.1f} %", f"[{low:.1f}, {high:.1f}]", (rate.value, rate.low, rate.high))


def _agreement(links: LinkAgreement) -> BreakdownTable:
    meaning = (
        "F1, in %, between the links of two arms on the references, with each target word linked to its most attended "
        "source word; of an arm with itself between its seeds."
    )
    columns = [
        Column(
            arm, [NOTHING if value is None else TableCell(f"{100 * value:.1f}", numbers=(value,)) for value in column]
        )
        for arm, column in zip(links.arms, zip(*links.f1, strict=True), strict=True)
    ]
    return BreakdownTable(AGREEMENT, meaning, [Column("Arm", [TableCell(arm) for arm in links.arms]), *columns])
