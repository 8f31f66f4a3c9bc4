"""Sittings as a Markdown page with tables and plots: systems and their floor, sweeps, the parts of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.records import AXES, OTHER, OURS, PARTS, PRECISIONS, Axis, Measurement, Sitting, Workload
from benchmarks.tables import COMPARED, markdown, sitting_tables
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.report.figures import COLORS, LINES, drawing, legend_below, line_styles, render

PRECISION_COLORS = dict(zip(PRECISIONS, COLORS, strict=False))
PEER_COLOR = "#999999"
AXIS_LABELS: dict[Axis, str] = {
    "length": "tokens per sentence",
    "batch": "sentences per batch",
    "vocabulary": "vocabulary entries",
    "threads": "threads",
}

_HEAD = """\
# Speed

How fast the package trains and translates, beside other toolkits and beside the least time that a step could take, in
several sittings. [Benchmarks](../benchmarks/README.md) describes what is measured, and how to repeat it. A value is the
median over the rounds, followed by the minimum and the maximum in brackets if there were several; in each round the
systems were measured in turn. Values of one sitting can be compared with each other, not with those of another.

The floor estimates the least time of a training step on that machine at that time: the matrix products that it needs,
each at its real shape and in the fastest way that torch offers, followed by the remaining memory traffic of a step, at
the rate at which tensors of that size are copied ([`floor.py`](../benchmarks/floor.py)). It is an estimate for
the step as a whole; a single part, such as the optimizer, can be faster. *Of the floor* and *of its products* are the
speed as a share of that of the floor and of its matrix products alone. This page is written by

<!-- not run: in a checkout, as tests/benchmarks does -->
```sh
{command}
```
"""

_SITTING = """\
## {started}

{hardware}. seq2seq_attn {version}, commit {commit}. {corpus}; {batches} batches after {warm_up} to warm up, {rounds}.
"""


def write_page(path: Path, files: Sequence[Path]) -> list[Path]:
    """Write the page of the sittings in these files, and its plots into the folder of its name; returns all paths."""
    sittings = [Sitting.load(file) for file in files]
    folder = path.with_suffix("")
    sections, written = [], [path]
    for number, sitting in enumerate(sittings, start=1):
        images = []
        for name, plot in sitting_plots(sitting):
            image = folder / f"{number}_{name}.svg"
            write_bytes(image, render(plot, "svg"))
            images.append(f"![{name.replace('_', ' ')}]({folder.name}/{image.name})")
            written.append(image)
        sections.append(_section(sitting, images))
    command = " ".join(["python -m benchmarks", *(f"--from {file}" for file in files), f"--page {path}"])
    write_bytes(path, "\n".join([_HEAD.format(command=command), *sections]).encode())
    return written


def _section(sitting: Sitting, images: Sequence[str]) -> str:
    rounds = max((len(each.values) for each in sitting.figures), default=0)
    head = _SITTING.format(
        started=sitting.started,
        hardware=sitting.hardware,
        version=sitting.version,
        commit=sitting.commit or "unknown",
        corpus=sitting.corpus,
        batches=sitting.batches,
        warm_up=sitting.warm_up,
        rounds=f"{rounds} round" if rounds == 1 else f"{rounds} rounds",
    )
    return "\n\n".join([head.rstrip(), *map(markdown, sitting_tables(sitting)), *images]) + "\n"


def sitting_plots(sitting: Sitting) -> Iterator[tuple[str, Figure]]:
    """File names and plots of everything that was measured."""
    common = [each for each in sitting.figures if each.job.sweep is None]
    if training := [each for each in common if each.job.what == "training"]:
        yield "training", plot_training(sitting, training)
    if profiles := [each for each in common if each.job.what == "profile"]:
        yield "parts", plot_step_parts(profiles)
    for axis in AXES:
        for workload in COMPARED:
            swept = [each for each in sitting.figures if (each.job.sweep, each.job.what) == (axis, workload)]
            if swept:
                yield f"{workload}_by_{axis}", plot_sweep(sitting, axis, workload, swept)


def plot_training(sitting: Sitting, training: Sequence[Measurement]) -> Figure:
    """One panel per model, one bar per system; dashed lines are the floors of our precisions, if measured."""
    panels: dict[str, list[Measurement]] = {}
    for each in training:
        panels.setdefault(each.job.model, []).append(each)
    heights = [len(measurements) for measurements in panels.values()]
    with drawing([]):
        plot = Figure(figsize=(8, 1 + 0.4 * sum(heights) + 0.5 * len(heights)), layout="constrained")
        grid = plot.subplots(len(panels), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
        for axes, (model, measurements) in zip(grid, panels.items(), strict=True):
            _draw_bars(axes, sitting, measurements)
            axes.set_title(model, loc="left")
        has_floor = any(sitting.floor(each.job) is not None for each in training)
        grid[-1].set_xlabel("training: target tokens/s" + (" (dashed: the floor)" if has_floor else ""))
    return plot


def _draw_bars(axes: Axes, sitting: Sitting, measurements: Sequence[Measurement]) -> None:
    for place, each in enumerate(measurements):
        color = PRECISION_COLORS[each.job.precision] if each.system == OURS else PEER_COLOR
        below, above = each.value - min(each.values), max(each.values) - each.value
        axes.barh(place, each.value, color=color, xerr=[[below], [above]])
        floor = sitting.floor(each.job)
        if each.system == OURS and floor is not None:
            axes.axvline(floor, color=color, linestyle=LINES[1])
    axes.set_yticks(range(len(measurements)), [f"{each.system}, {each.job.precision}" for each in measurements])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def plot_sweep(sitting: Sitting, axis: Axis, workload: Workload, swept: Sequence[Measurement]) -> Figure:
    """One line per system; for training also its floor, if measured, and a panel with its memory."""
    lines: dict[str, list[Measurement]] = {}
    for each in sorted(swept, key=lambda each: getattr(each.job, axis)):
        lines.setdefault(each.name, []).append(each)
    is_training = workload == "training"
    with drawing([]):
        plot = Figure(figsize=(10 if is_training else 6, 4.5), layout="constrained")
        panels = plot.subplots(1, 2 if is_training else 1, squeeze=False)[0]
        for name, style in line_styles(list(lines)).items():
            values = [getattr(each.job, axis) for each in lines[name]]
            panels[0].plot(values, [each.value for each in lines[name]], label=name, **style)
            if is_training:
                floors = [sitting.floor(each.job) for each in lines[name]]
                if any(floors):
                    known = [floor or nan for floor in floors]
                    panels[0].plot(values, known, color=style["color"], linestyle=":", label=f"{name}: floor")
                panels[1].plot(values, [each.peak / 1e9 for each in lines[name]], **style)
                panels[1].set_ylabel("peak memory, GB")
        panels[0].set_ylabel(COMPARED[workload])
        for axes in panels:
            axes.set_xscale("log")
            ticks = sorted({getattr(each.job, axis) for each in swept})
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_xlabel(AXIS_LABELS[axis])
        legend_below(plot, panels[0])
    return plot


def plot_step_parts(profiles: Sequence[Measurement]) -> Figure:
    """One bar per model and precision, divided into the parts of a training step."""
    colors = [*COLORS, "#F0E442", PEER_COLOR]
    with drawing([]):
        plot = Figure(figsize=(9, 3 + 0.4 * len(profiles)), layout="constrained")
        axes = plot.subplots()
        starts = [0.0] * len(profiles)
        for part, color in zip((*PARTS, OTHER), colors, strict=True):
            widths = [each.milliseconds[part] for each in profiles]
            axes.barh(range(len(profiles)), widths, left=starts, color=color, label=part)
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        axes.set_yticks(range(len(profiles)), [f"{each.job.model}, {each.job.precision}" for each in profiles])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("milliseconds of a training step, under the profiler")
        legend_below(plot, axes)
    return plot
