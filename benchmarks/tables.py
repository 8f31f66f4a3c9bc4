"""A sitting as Markdown: what the command prints, and what a page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchmarks.records import (
    AXES,
    BEAM_SIZE,
    IN_MILLISECONDS,
    OTHER,
    OURS,
    PARTS,
    Axis,
    Job,
    Measurement,
    Sitting,
    Workload,
)

COMPARED: dict[Workload, str] = {
    "training": "training, tokens/s",
    "greedy": "greedy, tokens/s",
    "beam": f"beam {BEAM_SIZE}, tokens/s",
    "sentence-greedy": "one sentence, greedy, ms",
    "sentence-beam": f"one sentence, beam {BEAM_SIZE}, ms",
}
MISSING = "–"


class TextTable(NamedTuple):
    """A table whose first column holds the names of its rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def markdown(table: TextTable) -> str:
    """The table in Markdown, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(table.header, *table.rows, strict=True)]
    rules = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    lines = []
    for first, *rest in (table.header, rules, *table.rows):
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([f"### {table.title}", "", *lines])


def sitting_text(sitting: Sitting) -> str:
    """Where the sitting was, what failed, and all its tables."""
    about = [f"{sitting.hardware}; {sitting.corpus}", *(f"failed: {each}" for each in sitting.failures)]
    return "\n\n".join(["\n".join(about), *map(markdown, sitting_tables(sitting))])


def sitting_tables(sitting: Sitting) -> Iterator[TextTable]:
    """All tables of the sitting, with rows and columns for everything that was measured."""
    if common := [each for each in sitting.figures if each.job.sweep is None]:
        yield from _common_task(sitting, [each for each in common if each.job.what in COMPARED])
        yield from _ratios([each for each in common if each.job.what in COMPARED])
        yield from _floors(sitting, [each for each in common if each.job.what == "products"])
        yield from (_step_parts(sitting, each) for each in common if each.job.what == "profile")
    for axis in AXES:
        swept = [each for each in sitting.figures if each.job.sweep == axis]
        yield from (_sweep(sitting, axis, workload, swept) for workload in COMPARED if _has(swept, workload))


def _common_task(sitting: Sitting, measurements: Sequence[Measurement]) -> Iterator[TextTable]:
    """One row per system and setting; ours with their share of the floor."""
    systems: dict[str, dict[Workload, Measurement]] = {}
    for each in measurements:
        systems.setdefault(each.name, {})[each.job.what] = each
    columns: dict[str, list[str]] = {}
    for workload in (workload for workload in COMPARED if _has(measurements, workload)):
        column = [by_workload.get(workload) for by_workload in systems.values()]
        columns[COMPARED[workload]] = [MISSING if each is None else _with_spread(each) for each in column]
        if workload == "training":
            columns["of the floor"] = [_share(each, sitting.floor) for each in column]
            columns["of its products"] = [_share(each, sitting.products) for each in column]
            columns["peak memory"] = [MISSING if each is None else _gigabytes(each) for each in column]
    known = {name: cells for name, cells in columns.items() if set(cells) != {MISSING}}
    if known:
        yield TextTable("The common task", ["", *known], list(zip(systems, *known.values(), strict=True)))


def _ratios(measurements: Sequence[Measurement]) -> Iterator[TextTable]:
    """One row per peer: how many times as fast ours is, in each of its precisions."""
    peers = dict.fromkeys((each.system, each.job.model) for each in measurements if each.system != OURS)
    workloads = [workload for workload in COMPARED if _has(measurements, workload)]
    rows = [
        [f"{model} against {peer}", *(_times_as_fast(peer, model, workload, measurements) for workload in workloads)]
        for peer, model in peers
    ]
    if rows:
        header = ["", *(COMPARED[workload].rpartition(",")[0] for workload in workloads)]
        yield TextTable("Times as fast as the peers", header, rows)


def _times_as_fast(peer: str, model: str, workload: Workload, measurements: Sequence[Measurement]) -> str:
    comparable = [each for each in measurements if (each.job.what, each.job.model) == (workload, model)]
    theirs = next((each.value for each in comparable if each.system == peer), None)
    ours = [each for each in comparable if each.system == OURS]
    if theirs is None or not ours:
        return MISSING
    return ", ".join(
        f"{theirs / each.value if workload in IN_MILLISECONDS else each.value / theirs:.1f} {each.job.precision}"
        for each in ours
    )


def _floors(sitting: Sitting, products: Sequence[Measurement]) -> Iterator[TextTable]:
    """What training could reach with its products alone, its traffic alone, and one after the other."""
    rows = []
    for each in products:
        rates = each.value, sitting.bytes(each.job), sitting.floor(each.job)
        rows.append([f"{each.job.model}, {each.job.precision}", *map(_rate, rates)])
    if rows:
        yield TextTable("The floor of training, tokens/s", ["", "products alone", "bytes alone", "floor"], rows)


def _step_parts(sitting: Sitting, profile: Measurement) -> TextTable:
    """Milliseconds of each part of a training step, beside its floor."""
    taken = profile.milliseconds
    floors = [sitting.ours(replace(profile.job, what=workload)) for workload in ("products", "bytes")]
    rows = [
        [part, f"{taken[part]:.1f}", f"{taken[part] / profile.value:.0%}", *(_floor_of_part(f, part) for f in floors)]
        for part in (*PARTS, OTHER)
    ]
    title = f"Where the time of a training step goes: {profile.job.model}, {profile.job.precision}"
    return TextTable(title, ["", "ms", "share", "products' floor, ms", "bytes' floor, ms"], rows)


def _sweep(sitting: Sitting, axis: Axis, workload: Workload, swept: Sequence[Measurement]) -> TextTable:
    """One row per value of the axis, one column per system; for training also memory and, if measured, the floor."""
    columns: dict[str, dict[int, str]] = {}
    for each in swept:
        if each.job.what == workload:
            cells = {each.name: _with_spread(each)}
            if workload == "training":
                if (floor := sitting.floor(each.job)) is not None:
                    cells |= {f"{each.name}: floor": _rate(floor)}
                cells |= {f"{each.name}: peak memory": _gigabytes(each)}
            for name, cell in cells.items():
                columns.setdefault(name, {})[getattr(each.job, axis)] = cell
    values = sorted({value for column in columns.values() for value in column})
    rows = [[f"{value:,}", *(column.get(value, MISSING) for column in columns.values())] for value in values]
    sentences = " (of synthetic sentences)" if axis in ("length", "vocabulary") else ""
    return TextTable(f"{COMPARED[workload]}, by {axis}{sentences}", [axis, *columns], rows)


def _has(measurements: Iterable[Measurement], workload: Workload) -> bool:
    return any(each.job.what == workload for each in measurements)


def _with_spread(measurement: Measurement) -> str:
    """The median; of several values also the minimum and the maximum."""
    values = measurement.values
    digits = 1 if measurement.job.what in IN_MILLISECONDS else 0
    median, low, high = (f"{value:,.{digits}f}" for value in (measurement.value, min(values), max(values)))
    return median if len(values) == 1 else f"{median} ({low} to {high})"


def _gigabytes(measurement: Measurement) -> str:
    return f"{measurement.peak / 1e9:.2f} GB" if measurement.peak else MISSING


def _rate(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def _share(measurement: Measurement | None, limit: Callable[[Job], float | None]) -> str:
    """The share of a limit that our own systems reach; the peers' models need other products."""
    if measurement is None or measurement.system != OURS:
        return MISSING
    rate = limit(measurement.job)
    return MISSING if rate is None else f"{measurement.value / rate:.0%}"


def _floor_of_part(floor: Measurement | None, part: str) -> str:
    """Milliseconds; 0 for a part without products or traffic."""
    return MISSING if floor is None else f"{floor.milliseconds.get(part, 0):.1f}"
