"""A sitting as pictures: systems beside their floor, cost along an axis, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from seq2seq_attn.bench.job import AXES, PRECISIONS, Axis, What
from seq2seq_attn.bench.parts import OTHER, PARTS
from seq2seq_attn.bench.results import OURS, Figure, Sitting
from seq2seq_attn.bench.table import COMPARED
from seq2seq_attn.report.figure_style import COLOURS, LINES, drawing, legend_below, line_styles

OF_PRECISION = dict(zip(PRECISIONS, COLOURS, strict=False))
OF_PEERS = "#999999"
AXIS_LABELS: dict[Axis, str] = {
    "length": "tokens of every sentence",
    "batch": "sentences a batch",
    "vocabulary": "vocabulary entries",
    "threads": "threads",
}


def pictures(sitting: Sitting) -> Iterator[tuple[str, Picture]]:
    """Names for their files, and the pictures; none of what was not measured."""
    common = [figure for figure in sitting.figures if figure.job.sweep is None]
    if training := [figure for figure in common if figure.job.what == "training"]:
        yield "training", beside_the_floor(sitting, training)
    if profiles := [figure for figure in common if figure.job.what == "profile"]:
        yield "parts", parts(profiles)
    for axis in AXES:
        for what in COMPARED:
            swept = [figure for figure in sitting.figures if (figure.job.sweep, figure.job.what) == (axis, what)]
            if swept:
                yield f"{what}_by_{axis}", along(sitting, axis, what, swept)


def beside_the_floor(sitting: Sitting, training: Sequence[Figure]) -> Picture:
    """A panel a model, a bar a system; dashed lines are the floors of our precisions, where they were measured."""
    panels: dict[str, list[Figure]] = {}
    for figure in training:
        panels.setdefault(figure.job.model, []).append(figure)
    heights = [len(figures) for figures in panels.values()]
    with drawing([]):
        picture = Picture(figsize=(8, 1 + 0.4 * sum(heights) + 0.5 * len(heights)), layout="constrained")
        grid = picture.subplots(len(panels), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
        for axes, (model, figures) in zip(grid, panels.items(), strict=True):
            _bars(axes, sitting, figures)
            axes.set_title(model, loc="left")
        has_floor = any(sitting.floor(figure.job) is not None for figure in training)
        grid[-1].set_xlabel("training: target tokens a second" + (" (dashed: the floor)" if has_floor else ""))
    return picture


def _bars(axes: Axes, sitting: Sitting, figures: Sequence[Figure]) -> None:
    for place, figure in enumerate(figures):
        colour = OF_PRECISION[figure.job.precision] if figure.system == OURS else OF_PEERS
        below, above = figure.value - min(figure.values), max(figure.values) - figure.value
        axes.barh(place, figure.value, color=colour, xerr=[[below], [above]])
        floor = sitting.floor(figure.job)
        if figure.system == OURS and floor is not None:
            axes.axvline(floor, color=colour, linestyle=LINES[1])
    axes.set_yticks(range(len(figures)), [f"{figure.system}, {figure.job.precision}" for figure in figures])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def along(sitting: Sitting, axis: Axis, what: What, swept: Sequence[Figure]) -> Picture:
    """A line a system; in training with its floor, if that was measured, and the memory beside it."""
    lines: dict[str, list[Figure]] = {}
    for figure in sorted(swept, key=lambda figure: getattr(figure.job, axis)):
        lines.setdefault(figure.name, []).append(figure)
    is_training = what == "training"
    with drawing([]):
        picture = Picture(figsize=(10 if is_training else 6, 4.5), layout="constrained")
        panels = picture.subplots(1, 2 if is_training else 1, squeeze=False)[0]
        for name, style in line_styles(list(lines)).items():
            values = [getattr(figure.job, axis) for figure in lines[name]]
            panels[0].plot(values, [figure.value for figure in lines[name]], label=name, **style)
            if is_training:
                floors = [sitting.floor(figure.job) for figure in lines[name]]
                if any(floors):
                    below = [floor or nan for floor in floors]
                    panels[0].plot(values, below, color=style["color"], linestyle=":", label=f"{name}: floor")
                panels[1].plot(values, [figure.peak / 1e9 for figure in lines[name]], **style)
                panels[1].set_ylabel("peak memory, GB")
        panels[0].set_ylabel(COMPARED[what])
        for axes in panels:
            axes.set_xscale("log")
            ticks = sorted({getattr(figure.job, axis) for figure in swept})
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_xlabel(AXIS_LABELS[axis])
        legend_below(picture, panels[0])
    return picture


def parts(profiles: Sequence[Figure]) -> Picture:
    """A bar a model and precision, cut into the parts of a training step."""
    colours = [*COLOURS, "#F0E442", OF_PEERS]
    with drawing([]):
        picture = Picture(figsize=(9, 3 + 0.4 * len(profiles)), layout="constrained")
        axes = picture.subplots()
        done = [0.0] * len(profiles)
        for part, colour in zip((*PARTS, OTHER), colours, strict=True):
            widths = [figure.milliseconds[part] for figure in profiles]
            axes.barh(range(len(profiles)), widths, left=done, color=colour, label=part)
            done = [start + width for start, width in zip(done, widths, strict=True)]
        axes.set_yticks(range(len(profiles)), [f"{f.job.model}, {f.job.precision}" for f in profiles])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("milliseconds of a training step, under the profiler")
        legend_below(picture, axes)
    return picture
