"""The pictures of the page, from the numbers of results.json alone (but for the states of the example)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from layers import SELF_ATTENTION
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from order import SHOWN, example_states

from seq2seq_attn.report.figures import Picture, drawing, legend_below, line_styles, render

EXAMPLES = {"self-attention,\nno positions": "no positions", "self-attention,\nsinusoidal": "sinusoidal"}

ALIKE = f"{SELF_ATTENTION}learned", f"{SELF_ATTENTION}relative bias"  # at the start as without positions; in the table


def draw_order(found: Mapping[str, Any]) -> dict[str, Figure]:
    """The states of two sentences with the same words, without and with positions, and how far they differ."""
    words, swapped = found["example"]["words"], found["example"]["swapped"]
    with drawing([]):
        figure = Picture(figsize=(7.6, 4.2), layout="constrained")
        grid = figure.subplots(len(EXAMPLES), 3, width_ratios=(3, 3, 2))
        for row, (title, position) in zip(grid, EXAMPLES.items(), strict=True):
            before, after = example_states(f"{SELF_ATTENTION}{position}")
            limit = float(before.abs().max())
            for axes, states in zip(row, (before, after), strict=False):
                axes.imshow(states[:, :SHOWN].numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
                axes.set_yticks(range(len(words)), words)
                axes.set_xticks([])
                axes.grid(visible=False)
            row[0].set_ylabel(title)
            row[1].set_yticks([])
            row[2].barh(range(len(words)), found["example"]["distance"][f"{SELF_ATTENTION}{position}"], color="#0072B2")
            row[2].set_yticks([])
            row[2].invert_yaxis()
            row[2].set_xlim(0, 0.5)
        grid[0][0].set_title(f"states in\n“{' '.join(words)}”")
        grid[0][1].set_title(f"states of the same words in\n“{' '.join(swapped)}”")
        grid[0][2].set_title("|h' − h| / |h|\n")
    return {"order": figure}


def draw_path(found: Mapping[str, Any]) -> dict[str, Figure]:
    """The gradient at each distance: all distances, and the first hundred down to 1e-8."""
    curves = {name: curve for name, curve in found["log10"].items() if name not in ALIKE}
    with drawing([]):
        figure = Picture(figsize=(7.6, 4.4), layout="constrained")
        whole, near = figure.subplots(1, 2)
        for axes in (whole, near):
            _gradients(axes, found["distances"], curves)
        near.set(xlim=(0, 100), ylim=(-8, 0.3), title="the same, enlarged")
        whole.set_title("untrained layers")
        whole.set_ylabel("log10 of the gradient,\nrelative to distance 0")
        legend_below(figure, whole)
    return {"path": figure}


def draw_tasks(found: Mapping[str, Any]) -> dict[str, Figure]:
    """Accuracy against length, and the gradients of the trained encoders."""
    with drawing([]):
        accuracy = Picture(figsize=(7.6, 3.8), layout="constrained")
        (panels,) = accuracy.subplots(1, len(found["accuracy"]), sharey=True, squeeze=False)
        for axes, (task, arms) in zip(panels, found["accuracy"].items(), strict=True):
            axes.axvspan(0.9, found["trained on"], color="#EEEEEE")
            styles = line_styles(list(arms))
            for arm, values in arms.items():
                seeds = np.array(values)
                axes.plot(found["lengths"], seeds.mean(axis=1), label=arm, markersize=4, **styles[arm])
                axes.fill_between(
                    found["lengths"], seeds.min(axis=1), seeds.max(axis=1), color=styles[arm]["color"], alpha=0.15
                )
            axes.set_xscale("log")
            ticks = [length for length in found["lengths"] if length != 12]  # too close to 10
            axes.set_xticks(ticks, [str(length) for length in ticks], fontsize=8)
            axes.minorticks_off()
            axes.set(title=task, xlabel="distance" if task == "agreement" else "words", ylim=(0, 1.03))
        panels[0].set_ylabel("accuracy (gray: trained on)")
        legend_below(accuracy, panels[0])
        trained = Picture(figsize=(7.6, 3.8), layout="constrained")
        (panels,) = trained.subplots(1, len(found["log10"]), sharey=True, squeeze=False)
        for axes, (task, arms) in zip(panels, found["log10"].items(), strict=True):
            _gradients(axes, found["distances"], arms)
            axes.set_title(f"trained on {task}")
        panels[0].set_ylabel("log10 of the gradient,\nrelative to distance 0")
        legend_below(trained, panels[0])
    return {"tasks": accuracy, "path-trained": trained}


def draw_speed(found: Mapping[str, Any]) -> dict[str, Figure]:
    """Training, one translation, and memory, against the length."""
    lengths = found["lengths"]
    panels = {
        "training, tokens/s": ("training", 1),
        "one greedy translation, s": ("latency", 1),
        "peak memory of training, MB": ("memory", 1e-6),
    }
    with drawing([]):
        figure = Picture(figsize=(7.6, 3.6), layout="constrained")
        for axes, (title, (key, factor)) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            for name, style in line_styles(list(found[key])).items():
                axes.plot(lengths, factor * np.median(found[key][name], axis=1), label=name, markersize=4, **style)
            axes.set(xscale="log", xlabel="words")
            if key == "latency":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=10)
            axes.set_xticks(lengths, [str(length) for length in lengths], fontsize=7)
            axes.minorticks_off()
        legend_below(figure, axes)
    return {"speed": figure}


def _gradients(axes: Axes, distances: Sequence[int], curves: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """The first line is the widest: some lie on top of each other."""
    widths = np.linspace(3.5, 1, len(curves))
    for width, (name, style) in zip(widths, line_styles(list(curves)).items(), strict=True):
        mean, *interval = np.array(curves[name]).T
        axes.plot(distances, mean, label=name, markersize=4, linewidth=width, **style)
        if interval:
            axes.fill_between(distances, *interval, color=style["color"], alpha=0.15)
    axes.set_xlabel("distance, words")


def save(figures: Mapping[str, Figure], folder: Path) -> None:
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(render(figure, "png"))
