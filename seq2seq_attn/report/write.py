"""The report of a results folder, written into the same folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.report.export import as_csv, as_latex, breakdowns_as_csv
from seq2seq_attn.report.figures import by_length_figure, learning_curve_figure, render
from seq2seq_attn.report.heat_maps import attention_figure, seen_figure
from seq2seq_attn.report.html_page import Contents, html_page
from seq2seq_attn.report.table import markdown
from seq2seq_attn.results.attention import ATTENTION, CORPUS, AttentionMap
from seq2seq_attn.results.curves import CURVES, Curve
from seq2seq_attn.results.examples import EXAMPLES, SENTENCES, Example
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.reproduction import REPRODUCTION
from seq2seq_attn.results.results import RESULTS, Results

MOST_FIGURES = 6  # the most arms per sentence that get attention figures; with more, only the page shows them


def write_report(folder: Path) -> list[Path]:
    """Write report.html, the tables as Markdown, LaTeX and CSV, and the figures (PNG and SVG) of the folder's JSON.

    Returns the paths written; figures of an earlier report that this one lacks are removed. UserError: results.json is
    missing, or a file is malformed. In that case, nothing is written.
    """
    contents = read_contents(folder)
    results = contents.results
    texts = {
        "report.html": html_page(contents),
        "table.md": markdown(results),
        "table.tex": as_latex(results),
        "table.csv": as_csv(results),
        "where.csv": breakdowns_as_csv(results),
    }
    written = [folder / name for name, text in texts.items() if text]
    for path in written:
        write_bytes(path, texts[path.name].encode())
    for name, figure in _figures(results, contents.curves, contents.maps, contents.examples or ()):
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            write_bytes(path, render(figure, kind))
            written.append(path)
    for path in {folder / "where.csv", *folder.glob("attention_[0-9]*.png"), *folder.glob("attention_[0-9]*.svg")}:
        if path not in written:
            path.unlink(missing_ok=True)
    return written


def read_contents(folder: Path) -> Contents:
    """The contents of a results folder. UserError: as for `write_report`."""
    contents = Contents(
        results=Results.load(folder / RESULTS),
        curves=CURVES.find(folder) or {},
        maps=ATTENTION.find(folder) or (),
        corpus=CORPUS.find(folder),
        examples=EXAMPLES.find(folder),
        sentences=SENTENCES.find(folder),
        reproduction=REPRODUCTION.find(folder),
    )
    known = [arm.name for arm in contents.results.arms]
    named: dict[str, Iterable[str]] = {
        CURVES.name: contents.curves,
        ATTENTION.name: [shown.arm for shown in contents.maps],
        CORPUS.name: contents.corpus.arms if contents.corpus else (),
        EXAMPLES.name: [trace.arm for example in contents.examples or () for trace in example.readings],
        REPRODUCTION.name: contents.reproduction.configurations if contents.reproduction else (),
    }
    for name, arms in named.items():
        if unknown := [arm for arm in arms if arm not in known]:
            raise UserError(f"{folder / name}: arm {unknown[0]!r} is not in {RESULTS}, which has {', '.join(known)}")
    compared = {arm for pair in contents.results.comparisons for arm in (pair.arm, pair.baseline)}
    for sentence in contents.sentences.sentences if contents.sentences else ():
        if missing := compared - sentence.translations.keys():
            raise UserError(f"{folder / SENTENCES.name}: sentence {sentence.line} has no output by {min(missing)!r}")
    return contents


def _figures(
    results: Results, runs: Mapping[str, Sequence[Curve]], maps: Sequence[AttentionMap], examples: Sequence[Example]
) -> Iterator[tuple[str, Figure]]:
    """Figures with their file names, without suffix."""
    yield "by_length", by_length_figure(results)
    if any(runs.values()):
        yield "curves", learning_curve_figure(results, runs)
    sentences: dict[tuple[str, ...], list[AttentionMap]] = {}
    for shown in maps:
        sentences.setdefault(shown.source, []).append(shown)
    for number, arms in enumerate(sentences.values(), start=1):
        if len(arms) > MOST_FIGURES:
            continue
        for shown in arms:
            yield f"attention_{number}_{slug(shown.arm)}", attention_figure([shown])
        if len(arms) > 1:
            yield f"attention_{number}", attention_figure(arms)
    for number, example in enumerate(examples, start=1):
        for trace in example.readings:
            if example.seen is None or not any(step.weights for step in trace.reference):
                continue
            nothing = (0.0,) * len(trace.source)  # as where monotonic attention has passed the end
            weights = np.array([[step.weights or nothing for step in trace.reference]])
            tokens = [step.token for step in trace.reference]
            picture, seconds = example.seen.picture, example.seen.seconds
            yield (
                f"attention_{number}_{slug(trace.arm)}",
                seen_figure([weights], picture, seconds, trace.grid, tokens, trace.arm),
            )
