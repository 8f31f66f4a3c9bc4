"""The report of a results folder, written into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from seq2seq_attn.errors import UserError
from seq2seq_attn.report.as_csv import as_csv
from seq2seq_attn.report.as_latex import as_latex
from seq2seq_attn.report.html.page import Contents, page
from seq2seq_attn.report.pictures.attention import heatmap
from seq2seq_attn.report.pictures.bleu_by_length import bleu_by_length
from seq2seq_attn.report.pictures.curves import curves
from seq2seq_attn.report.pictures.style import render
from seq2seq_attn.report.table import markdown
from seq2seq_attn.report.where_as_csv import where_as_csv
from seq2seq_attn.results.examples import load_examples
from seq2seq_attn.results.making import load_making
from seq2seq_attn.results.observations import AttentionMap, Curve, load_attention, load_curves
from seq2seq_attn.results.results import Results
from seq2seq_attn.results.sentences import load_sentences
from seq2seq_attn.results.slug import slug
from seq2seq_attn.text.files import write_bytes

RESULTS, CURVES, ATTENTION = "results.json", "curves.json", "attention.json"
EXAMPLES, SENTENCES, MAKING = "examples.json", "sentences.json", "making.json"

PICTURED = 6  # arms, at most, whose weights are files of their own; beyond it the page alone shows them, two at a time

T = TypeVar("T")


def write_report(folder: Path) -> list[Path]:
    """Make report.html, the tables as Markdown, LaTeX and CSV, and the pictures (PNG and SVG) of the folder's JSON.

    The paths written. UserError if a file is missing or malformed; then nothing is written.
    """
    contents = read_contents(folder)
    results = contents.results
    texts = {
        "report.html": page(contents),
        "table.md": markdown(results),
        "table.tex": as_latex(results),
        "table.csv": as_csv(results),
        "where.csv": where_as_csv(results),
    }
    written = [folder / name for name, text in texts.items() if text]
    for path in written:
        write_bytes(path, texts[path.name].encode())
    for name, figure in _figures(results, contents.curves, contents.maps):
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            write_bytes(path, render(figure, kind))
            written.append(path)
    return written


def read_contents(folder: Path) -> Contents:
    """What a results folder holds; examples, sentences and making came later, and folders from before do without.

    UserError as of `write_report`.
    """
    contents = Contents(
        results=Results.load(folder / RESULTS),
        curves=load_curves(folder / CURVES),
        maps=load_attention(folder / ATTENTION),
        examples=_if_there(load_examples, folder / EXAMPLES),
        sentences=_if_there(load_sentences, folder / SENTENCES),
        making=_if_there(load_making, folder / MAKING),
    )
    named = {
        CURVES: contents.curves,
        ATTENTION: [shown.arm for shown in contents.maps],
        EXAMPLES: [reading.arm for example in contents.examples or () for reading in example.readings],
        MAKING: contents.making.configurations if contents.making else (),
    }
    for name, arms in named.items():
        _refuse_strangers(folder / name, arms, contents.results)
    return contents


def _if_there(read: Callable[[Path], T], path: Path) -> T | None:
    return read(path) if path.exists() else None


def _refuse_strangers(path: Path, arms: Iterable[str], results: Results) -> None:
    known = [arm.name for arm in results.arms]
    for arm in arms:
        if arm not in known:
            raise UserError(f"{path}: arm {arm!r} is not in {RESULTS}, which has {', '.join(known)}")


def _figures(
    results: Results, runs: Mapping[str, Sequence[Curve]], maps: Sequence[AttentionMap]
) -> Iterator[tuple[str, Figure]]:
    """File names without their endings, and what is drawn in them."""
    yield "bleu_by_length", bleu_by_length(results)
    yield "curves", curves({arm.name: runs.get(arm.name, ()) for arm in results.arms})
    sentences: dict[tuple[str, ...], list[AttentionMap]] = {}
    for shown in maps:
        sentences.setdefault(shown.source, []).append(shown)
    for number, arms in enumerate(sentences.values(), start=1):
        if len(arms) > PICTURED:
            continue
        for shown in arms:
            yield f"attention_{number}_{slug(shown.arm)}", heatmap([shown])
        if len(arms) > 1:
            yield f"attention_{number}", heatmap(arms)
