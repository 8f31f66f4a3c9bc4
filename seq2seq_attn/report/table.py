"""The comparison as a table with one row per arm, for the terminal and as Markdown, and the tables of the breakdowns.

Each breakdown, each kind of rate and the link agreement have a table of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import NamedTuple, TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from seq2seq_attn.report.columns import (
    NOTHING,
    TESTS,
    Column,
    TableCell,
    columns,
    contrast_columns,
    lengths,
    signature_header,
)
from seq2seq_attn.report.conclusion import missing_runs, nothing_learned
from seq2seq_attn.results.breakdowns import Breakdown, GroupResult, Rate
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results

AGREEMENT = "agreement of links"
AGREEMENT_MEANING = (
    "F1 in % between the links of two arms on the references, where each target word is linked to the position of the "
    "source that it attends to most; on the diagonal, F1 between the seeds of an arm."
)
CONTRASTS = "planned contrasts"

MOST_COLUMNS = 9  # of a table in Markdown, arms included: more would have to be scrolled on a page of a repository
ARM_WIDTH = 22  # longer names are wrapped in the terminal
GAP = 1  # between columns, in the terminal

T = TypeVar("T")


def notes(results: Results, shown: Iterable[Column]) -> list[str]:
    """The meaning of the columns shown, and the provenance of their numbers."""
    shown = list(shown)
    return [*(column.meaning for column in shown if column.meaning), *provenance(results, shown)]


def provenance(results: Results, shown: Iterable[Column]) -> list[str]:
    """What is missing, correction, rivals, seeds, the signatures of the columns shown, and commit and hardware."""
    shown = list(shown)
    return [
        *(f"Missing: {each}" for each in missing_runs(results)),
        *_correction(results),
        *_rivals(results, shown),
        *_tuning(results),
        f"Seeds: {seeds(results.arms)}",
        *_signatures(results, shown),
        f"Produced by seq2seq_attn {results.version}, commit {results.commit}, on {results.hardware}",
    ]


def markdown(results: Results) -> str:
    """The table and its notes as GitHub Markdown, every column but the main ones folded; then the breakdowns."""
    arm, *rest = shown = columns(results)
    main, more = [arm, *(each for each in rest if not each.optional)], [each for each in rest if each.optional]
    lines = [f"# {results.experiment}", "", _markdown(main), ""]
    lines += [f"- {column.meaning}" for column in main if column.meaning]
    lines += ["", "<details>", f"<summary>{'More columns, and how' if more else 'How'} this was measured</summary>", ""]
    lines += [_markdown([arm, *more]), ""] if more else []
    lines += [f"- {column.meaning}" for column in more if column.meaning]
    lines += [*(f"- {note}" for note in provenance(results, shown)), "", "</details>"]
    tables = list(breakdown_tables(results))
    if tables:
        lines += ["", "## Where the arms differ", "", explained(results)]
    for table in tables:
        lines += ["", f"### {table.name.capitalize()}", "", table.meaning, "", _markdown(table.columns)]
    return "\n".join([*lines, ""])


def _markdown(shown: Sequence[Column]) -> str:
    """The columns in tables of at most `MOST_COLUMNS`, each of which begins with the first one."""
    first, *rest = shown
    parts = [[first, *rest[start : start + MOST_COLUMNS - 1]] for start in range(0, len(rest), MOST_COLUMNS - 1)]
    return "\n\n".join(
        markdown_table(
            [column.header for column in part],
            zip(*([cell.line for cell in column.cells] for column in part), strict=True),
        )
        for part in parts
    )


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[str]], left: Collection[str] = ()) -> str:
    """GitHub Markdown with numbers on the right; the first column and those whose headers are in `left` hold text."""
    rule = ["---", *("---" if each in left else "---:" for each in header[1:])]
    return "\n".join(map(_line, (header, rule, *rows)))


def terminal(results: Results, width: int = 120) -> RenderableType:
    """The main columns, at most eight, for a terminal of this many characters per line; then what they are, in a line.

    Nothing is truncated: columns that do not fit continue in another table below.
    """
    shown = [column for column in columns(results) if not column.optional]
    parts = _pack(shown, width)
    about = _in_short(results, [column.header for column in shown])
    tables = [renderable for part in parts for renderable in (_rich(part), Text())]
    return Group(Text(f"{results.experiment}\n", style="bold"), *tables, Text(about, style="dim"))


def _in_short(results: Results, headers: Collection[str]) -> str:
    """What the columns with these headers are."""
    main, bands = results.main, [column.header for column in lengths(results) if not column.optional]
    fewest, most = (pick(len(arm.seeds) for arm in results.arms) for pick in (min, max))
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    runs = f", mean over {count} seeds ± standard deviation" if most > 1 else ""
    interval = ", [95 % interval]" if results.comparisons else ""
    scores = f"{main.explanation}; {results.sentences:,} test {results.item}s{runs}{interval}"
    by_length = f"{' and '.join(bands)}: by source length in {results.unit}"
    others = (metric.explanation for metric in results.metrics if metric.label in headers and metric is not main)
    return "; ".join([scores, by_length, *others])


def explained(results: Results) -> str:
    """What the cells of the breakdowns are."""
    return (
        f"Each group of test {results.item}s has {_in_groups(results)} with 95 % intervals over resampled "
        f"{results.item}s; each rate has its interval."
    )


def _in_groups(results: Results) -> str:
    """The metrics in the cells of a breakdown."""
    return " and ".join(metric.label for metric in shown_in_groups(results))


def shown_in_groups(results: Results) -> list[MetricRecord]:
    """The main metric and the next one that groups have; where.csv has all of them."""
    group = next(group for group in next(iter(results.by_length.arms.values())) if group is not None)
    return [metric for metric in results.metrics if metric.key in group.scores][:2]


def _correction(results: Results) -> list[str]:
    count = len(results.tested)
    if not results.is_learned:
        return [nothing_learned(results).rstrip(".")] if results.tested else []
    if count < 2:
        return []
    return [
        f"All p-values are corrected for {count} comparisons (Holm); results.json also has the raw ones, and those of "
        "other tests"
    ]


def _rivals(results: Results, shown: Iterable[Column]) -> list[str]:
    """What an alignment error rate has to be compared with."""
    label = results.labels.get("aer")
    if not results.aer_rivals or label not in {column.header for column in shown}:
        return []
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in results.aer_rivals.items())
    return [f"{label} without attention: {rates}"]


def _tuning(results: Results) -> list[str]:
    """Which arms had a search for their settings, and what it found."""
    if not results.tuned:
        return []
    monitor = next(iter(results.tuned.values())).monitor
    found = [f"{arm}: {tuned.shown} ({len(tuned.scores)} tried)" for arm, tuned in results.tuned.items()]
    how = ", ".join(filter(None, [f"Tuned by validation {monitor}, one seed", results.tuned_by]))
    others = f"; the other arms have the setting of {results.tuned_for_others}" if results.tuned_for_others else ""
    return [f"{how}: {'; '.join(found)}{others}"]


def _signatures(results: Results, shown: Iterable[Column]) -> list[str]:
    """The signatures of the columns shown."""
    reported = {pair.test for pair in results.tested if pair.p_reported is not None}
    headers = {column.header for column in shown}
    named = [
        (signature_header(results, key), signature)
        for key, signature in results.signatures.items()
        if key not in TESTS or key in reported
    ]
    return [f"Signature of {header}: {signature}" for header, signature in named if header in headers]


def seeds(arms: Sequence[ArmResult]) -> str:
    """The seeds of all arms, or those of each arm if they differ."""
    lists = {arm.name: ", ".join(map(str, arm.seeds)) for arm in arms}
    alike = len(set(lists.values())) == 1
    return lists[arms[0].name] if alike else "; ".join(f"{name}: {own}" for name, own in lists.items())


def _line(cells: Iterable[str]) -> str:
    escaped = (re.sub(r"<(?=[A-Za-z/!?])", r"\<", cell.replace("|", r"\|")) for cell in cells)  # a tag of HTML
    return "| " + " | ".join(escaped) + " |"


def _pack(shown: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns in order, as tables of at most this width, arms first in each."""
    arm, *rest = shown
    parts = [[arm]]
    for column in rest:
        taken = min(arm.width, ARM_WIDTH) + sum(GAP + each.width for each in (*parts[-1][1:], column))
        if taken > width and len(parts[-1]) > 1:
            parts.append([arm])
        parts[-1].append(column)
    return parts


def _rich(part: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, leading=1)
    for number, column in enumerate(part):
        if number == 0:
            table.add_column(column.header, width=min(column.width, ARM_WIDTH), overflow="fold")
        else:
            table.add_column(column.header, justify="right", no_wrap=True)
    for row in zip(*(column.cells for column in part), strict=True):
        table.add_row(*(_two_lines(cell) for cell in row))
    return table


def _two_lines(cell: TableCell) -> Text:
    return Text.assemble(cell.value, "\n", (cell.detail, "dim")) if cell.detail else Text(cell.value)


class BreakdownTable(NamedTuple):
    """A table with the names of the arms, or of the contrasts, in its first column."""

    name: str
    meaning: str
    columns: list[Column]
    breakdown: Breakdown | None = None  # None: the table shows rates or link agreement
    in_cells: str = ""  # explains the cells of a table on its own


def breakdown_tables(results: Results) -> Iterator[BreakdownTable]:
    """All tables that are not empty."""
    if results.contrasts:
        meaning = "Comparisons that the experiment names, tested and corrected together with those in the main table."
        in_cells = "Differences are the first arm minus the second."
        yield BreakdownTable(CONTRASTS, meaning, contrast_columns(results), in_cells=in_cells)
    in_cells = f"{_in_groups(results)} with 95 % intervals over resampled {results.item}s."
    metrics = shown_in_groups(results)
    for breakdown in breakdowns(results):
        headers = (_header(breakdown, place, results.unit) for place in range(len(breakdown.groups)))
        shown = _by_arm(breakdown.arms, headers, partial(_group, metrics=metrics, unit=results.unit))
        yield BreakdownTable(breakdown.name, breakdown.meaning, shown, breakdown, in_cells)
    in_cells = f"With 95 % intervals over resampled {results.item}s."
    for rates in results.where.rates:
        shown = _by_arm(rates.arms, rates.groups, _rate)
        yield BreakdownTable(rates.name, rates.meaning, shown, in_cells=in_cells)
    if links := results.where.agreement:
        shown = _by_arm(dict(zip(links.arms, links.f1, strict=True)), links.arms, _f1)
        yield BreakdownTable(AGREEMENT, AGREEMENT_MEANING, shown)


def breakdowns(results: Results) -> list[Breakdown]:
    """All breakdowns, the one by length first."""
    return [results.by_length, *results.where.breakdowns]


def _by_arm(
    arms: Mapping[str, Sequence[T | None]], headers: Iterable[str], cell: Callable[[T], TableCell]
) -> list[Column]:
    """One row per arm, one column per header."""
    return [
        Column("Arm", [TableCell(arm) for arm in arms]),
        *(
            Column(header, [NOTHING if value is None else cell(value) for value in values])
            for header, values in zip(headers, zip(*arms.values(), strict=True), strict=True)
        ),
    ]


def _header(breakdown: Breakdown, place: int, unit: str) -> str:
    """The label of a group, with its size if all arms share the group."""
    result = next(iter(breakdown.arms.values()))[place]
    label = breakdown.groups[place]
    return label if result is None or breakdown.by_own_groups else f"{label} ({size(result, unit)})"


def size(result: GroupResult, unit: str) -> str:
    """The number of sentences and their mean source length."""
    return f"{result.sentences:,}" + ("" if result.words is None else f" of {result.words:.0f} {unit}")


def _group(result: GroupResult, metrics: Sequence[MetricRecord], unit: str) -> TableCell:
    """The main metric with its interval, then the other ones; no interval of a single sentence, which has none."""
    own = f"; {result.bounds}: {size(result, unit)}" if result.bounds else ""
    main, *others = metrics
    details = [interval(result, main)] if result.different > 1 else []
    details += [
        f"{each.label} {each.text(result.scores[each.key].value)} {interval(result, each)}".rstrip() for each in others
    ]
    numbers = [number for each in metrics for number in astuple(result.scores[each.key])]
    return TableCell(main.text(result.main.value), f"{', '.join(details)}{own}", tuple(numbers))


def interval(result: GroupResult, metric: MetricRecord) -> str:
    """The limits of a score; "" for a single sentence, whose resamples are all the same."""
    score = result.scores[metric.key]
    return "" if result.different == 1 else f"[{metric.text(score.low)}, {metric.text(score.high)}]"


def _rate(rate: Rate) -> TableCell:
    value, low, high = (100 * each for each in (rate.value, rate.low, rate.high))
    return TableCell(f"{value:.1f} %", f"[{low:.1f}, {high:.1f}]", (rate.value, rate.low, rate.high))


def _f1(value: float) -> TableCell:
    return TableCell(f"{100 * value:.1f}", numbers=(value,))
