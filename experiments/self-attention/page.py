"""The tables of docs/self-attention.md, made from results.json, and their places in the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from seq2seq_attn.report.table import markdown_table

FOLDER = "experiments/self-attention"
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def fill(text: str, results: Mapping[str, Any]) -> str:
    """The page with the tables and pictures of these results; a part that was not measured says how to."""

    def replacement(match: re.Match[str]) -> str:
        part = match[2]
        if part not in results:
            return f"{match[1]}\nNot measured yet: `python {FOLDER}/measure.py {part}`.\n\n{match[3]}"
        found = results[part]
        made = found["made"]
        provenance = f"`{made['command']}`; commit {made['commit'][:10]}; {made['hardware']}."
        return "\n\n".join([match[1].rstrip("\n"), *TABLES[part](found), provenance, match[3]])

    return PLACE.sub(replacement, text)


def picture(name: str, description: str) -> str:
    return f"![{description}](../{FOLDER}/{name}.png)"


def count_tables(found: Mapping[str, Any]) -> list[str]:
    lengths = [f"n = {length:,}" for length in found["lengths"]]
    return [
        f"Multiplications in matrix products, in millions, d = {found['size']}:",
        _per_layer(lengths, found["multiplications"], lambda value: f"{value / 1e6:,.2f}"),
        "Operations that wait for each other:",
        _per_layer(lengths, found["chain"], lambda value: f"{value:,}"),
    ]


def _per_layer(lengths: Sequence[str], values: Mapping[str, Sequence[int]], text: Callable[[int], str]) -> str:
    names = {name: name.partition(",")[0] for name in values}
    return markdown_table(["layer", *lengths], [[names[name], *map(text, each)] for name, each in values.items()])


def order_tables(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [name, f"{mean(found['distance'][name]):.2g}", "{:.2g} to {:.2g}".format(*found["interval"][name])]
        for name in found["distance"]
    ]
    head = f"Mean over the words of {found['sentences']} sentences of {found['length']} words, {_seeds(found)}:"
    return [
        picture("order", "States of the same words in two orders, as heat maps, and their distances"),
        head,
        markdown_table(["layer", "distance of the states", "95 % interval"], rows),
    ]


def path_tables(found: Mapping[str, Any]) -> list[str]:
    return [
        picture("path", "Gradient against distance for untrained layers"),
        f"Gradient relative to that at distance 0, as a power of ten, untrained, {_seeds(found)}:",
        _gradient_table(found["distances"], {"layer": found["log10"]}, found["maximum path length"]),
    ]


def task_tables(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [f"{task}: {arm}", *map(_percent, values)]
        for task, arms in found["accuracy"].items()
        for arm, values in arms.items()
    ]
    sizes = sorted({count for arms in found["parameters"].values() for count in arms.values()})
    taken = [seconds for arms in found["seconds"].values() for each in arms.values() for seconds in each]
    return [
        picture("tasks", "Accuracy against length for each task and model"),
        f"Accuracy in %, {_seeds(found)} (with their range), {found['sentences']} sentences for each length. Trained "
        f"on {found['pairs']:,} pairs of up to {found['trained on']} words, {found['epochs']} epochs; {sizes[0]:,} to "
        f"{sizes[-1]:,} parameters. The {len(taken)} runs took {sum(taken) / 60:.0f} minutes beside other work.",
        markdown_table(["task and model", *map(str, found["lengths"])], rows),
        picture("path-trained", "Gradient against distance for the trained encoders"),
        "Gradient in the trained encoders, as above:",
        _gradient_table(found["distances"], found["log10"]),
    ]


def speed_tables(found: Mapping[str, Any]) -> list[str]:
    sizes = ", ".join(f"{name} {count:,}" for name, count in found["parameters"].items())
    quantities: dict[str, tuple[str, float]] = {
        "training": ("training, tokens/s", 1),
        "latency": ("one translation, ms", 1e3),
        "memory": ("peak memory, MB", 1e-6),
    }
    rows = [
        [f"{title}: {name}", *(f"{factor * median(each):,.0f}" for each in values)]
        for key, (title, factor) in quantities.items()
        for name, values in found[key].items()
    ]
    return [
        picture("speed", "Training speed, time of a translation and memory against the length"),
        f"Median of {found['rounds']} rounds of {found['batches']} batches of about {found['batch tokens']:,} target "
        f"tokens (one sentence, if that is longer); memory is the growth of the process in training. Parameters: "
        f"{sizes}.",
        markdown_table(["measured", *map(str, found["lengths"])], rows),
    ]


def _percent(accuracies: Sequence[float]) -> str:
    """The mean over seeds, and the lowest and highest if they differ."""
    low, middle, high = (f"{100 * value:.0f}" for value in (min(accuracies), mean(accuracies), max(accuracies)))
    return middle if low == high else f"{middle} ({low}–{high})"


def _gradient_table(
    distances: Sequence[int],
    groups: Mapping[str, Mapping[str, Sequence[Sequence[float]]]],
    lengths: Mapping[str, str] | None = None,
) -> str:
    shown = [place for place, distance in enumerate(distances) if distance in (1, 10, 50, 100, 500)]
    rows = []
    for group, curves in groups.items():
        for name, curve in curves.items():
            cells = [_with_interval(curve[place]) for place in shown]
            rows.append([name, lengths[name], *cells] if lengths else [f"{group}: {name}", *cells])
    first = ["layer", "longest path"] if lengths else ["task and model"]
    return markdown_table([*first, *(f"distance {distances[place]}" for place in shown)], rows)


def _with_interval(summary: Sequence[float]) -> str:
    center, *interval = summary
    return f"{center:.1f}" + (f" ± {(interval[1] - interval[0]) / 2:.1f}" if interval else "")


def _seeds(found: Mapping[str, Any]) -> str:
    return f"{len(found['seeds'])} seeds"


TABLES: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "count": count_tables,
    "order": order_tables,
    "path": path_tables,
    "tasks": task_tables,
    "speed": speed_tables,
}
