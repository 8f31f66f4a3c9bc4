"""A sitting as tables: rows of text, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from seq2seq_attn.bench.job import AXES, BEAM_SIZE, MILLISECONDS, Axis, Job, What
from seq2seq_attn.bench.parts import OTHER, PARTS
from seq2seq_attn.bench.results import OURS, Figure, Sitting

COMPARED: dict[What, str] = {
    "training": "training, tokens/s",
    "greedy": "greedy, tokens/s",
    "beam": f"beam {BEAM_SIZE}, tokens/s",
    "sentence-greedy": "one sentence, greedy, ms",
    "sentence-beam": f"one sentence, beam {BEAM_SIZE}, ms",
}
NOTHING = "–"


class Table(NamedTuple):
    """The first cell of a row says what the row is of."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(sitting: Sitting) -> Iterator[Table]:
    """All that there is to show; what was not measured has no row and no column."""
    if common := [figure for figure in sitting.figures if figure.job.sweep is None]:
        yield from _compared(sitting, [figure for figure in common if figure.job.what in COMPARED])
        yield from _ratios([figure for figure in common if figure.job.what in COMPARED])
        yield from _floors(sitting, [figure for figure in common if figure.job.what == "products"])
        yield from (_parts(sitting, figure) for figure in common if figure.job.what == "profile")
    for axis in AXES:
        swept = [figure for figure in sitting.figures if figure.job.sweep == axis]
        yield from (_sweep(sitting, axis, what, swept) for what in COMPARED if _has(swept, what))


def _compared(sitting: Sitting, figures: Sequence[Figure]) -> Iterator[Table]:
    """A row a system in its setting, ours with its share of the floor."""
    systems: dict[str, dict[What, Figure]] = {}
    for figure in figures:
        systems.setdefault(figure.name, {})[figure.job.what] = figure
    columns: dict[str, list[str]] = {}
    for what in (what for what in COMPARED if _has(figures, what)):
        measured = [of.get(what) for of in systems.values()]
        columns[COMPARED[what]] = [NOTHING if figure is None else with_spread(figure) for figure in measured]
        if what == "training":
            columns["of the floor"] = [_share(figure, sitting.floor) for figure in measured]
            columns["of its products"] = [_share(figure, sitting.products) for figure in measured]
            columns["peak memory"] = [NOTHING if figure is None else gigabytes(figure) for figure in measured]
    known = {name: cells for name, cells in columns.items() if set(cells) != {NOTHING}}
    if known:
        yield Table("The common task", ["", *known], list(zip(systems, *known.values(), strict=True)))


def _ratios(figures: Sequence[Figure]) -> Iterator[Table]:
    """A row a peer: how many times as fast ours is, in each of its precisions."""
    peers = dict.fromkeys((figure.system, figure.job.model) for figure in figures if figure.system != OURS)
    whats = [what for what in COMPARED if _has(figures, what)]
    rows = [
        [f"{model} against {peer}", *(_times_as_fast(peer, model, what, figures) for what in whats)]
        for peer, model in peers
    ]
    if rows:
        yield Table("Times as fast as the peers", ["", *(COMPARED[what].rpartition(",")[0] for what in whats)], rows)


def _times_as_fast(peer: str, model: str, what: What, figures: Sequence[Figure]) -> str:
    of_model = [figure for figure in figures if (figure.job.what, figure.job.model) == (what, model)]
    theirs = next((figure.value for figure in of_model if figure.system == peer), None)
    ours = [figure for figure in of_model if figure.system == OURS]
    if theirs is None or not ours:
        return NOTHING
    return ", ".join(
        f"{theirs / figure.value if what in MILLISECONDS else figure.value / theirs:.1f} {figure.job.precision}"
        for figure in ours
    )


def _floors(sitting: Sitting, products: Sequence[Figure]) -> Iterator[Table]:
    """What training could reach: by the products alone, by the bytes alone, and by the one after the other."""
    rows = []
    for figure in products:
        rates = figure.value, sitting.bytes(figure.job), sitting.floor(figure.job)
        rows.append([f"{figure.job.model}, {figure.job.precision}", *map(_rate, rates)])
    if rows:
        yield Table("The floor of training, tokens/s", ["", "products alone", "bytes alone", "floor"], rows)


def _parts(sitting: Sitting, profile: Figure) -> Table:
    """Milliseconds of a training step, and of its floor."""
    of_step = profile.milliseconds
    floors = [sitting.ours(replace(profile.job, what=what)) for what in ("products", "bytes")]
    rows = [
        [part, f"{of_step[part]:.1f}", f"{of_step[part] / profile.value:.0%}", *(_of_part(f, part) for f in floors)]
        for part in (*PARTS, OTHER)
    ]
    title = f"Where the time of a training step goes: {profile.job.model}, {profile.job.precision}"
    return Table(title, ["", "ms", "share", "products' floor, ms", "bytes' floor, ms"], rows)


def _sweep(sitting: Sitting, axis: Axis, what: What, swept: Sequence[Figure]) -> Table:
    """A row a value of the axis, a column a system; in training its floor, if measured, and its memory beside it."""
    columns: dict[str, dict[int, str]] = {}
    for figure in swept:
        if figure.job.what == what:
            cells = {figure.name: with_spread(figure)}
            if what == "training":
                if (floor := sitting.floor(figure.job)) is not None:
                    cells |= {f"{figure.name}: floor": _rate(floor)}
                cells |= {f"{figure.name}: peak memory": gigabytes(figure)}
            for name, cell in cells.items():
                columns.setdefault(name, {})[getattr(figure.job, axis)] = cell
    values = sorted({value for column in columns.values() for value in column})
    rows = [[f"{value:,}", *(column.get(value, NOTHING) for column in columns.values())] for value in values]
    sentences = " (of synthetic sentences)" if axis in ("length", "vocabulary") else ""
    return Table(f"{COMPARED[what]}, by {axis}{sentences}", [axis, *columns], rows)


def _has(figures: Iterable[Figure], what: What) -> bool:
    return any(figure.job.what == what for figure in figures)


def with_spread(figure: Figure) -> str:
    """The median, and of several values the least and the greatest."""
    digits = 1 if figure.job.what in MILLISECONDS else 0
    median, low, high = (f"{value:,.{digits}f}" for value in (figure.value, min(figure.values), max(figure.values)))
    return median if len(figure.values) == 1 else f"{median} ({low} to {high})"


def gigabytes(figure: Figure) -> str:
    return f"{figure.peak / 1e9:.2f} GB"


def _rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _share(figure: Figure | None, most: Callable[[Job], float | None]) -> str:
    """Of what there could be at most, for our own figures: the peers' models need other products."""
    if figure is None or figure.system != OURS:
        return NOTHING
    rate = most(figure.job)
    return NOTHING if rate is None else f"{figure.value / rate:.0%}"


def _of_part(floor: Figure | None, part: str) -> str:
    """A part of which no product is needed needs no time for any."""
    return NOTHING if floor is None else f"{floor.milliseconds.get(part, 0):.1f}"
