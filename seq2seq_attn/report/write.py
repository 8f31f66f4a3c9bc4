"""The report of a results folder, written into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from seq2seq_attn.errors import UserError
from seq2seq_attn.report.observations import AttentionMap, Curve, load_attention, load_curves
from seq2seq_attn.report.pictures.attention import heatmap
from seq2seq_attn.report.pictures.bleu_by_length import bleu_by_length
from seq2seq_attn.report.pictures.curves import curves
from seq2seq_attn.report.pictures.style import render
from seq2seq_attn.report.results import Results
from seq2seq_attn.report.slug import slug
from seq2seq_attn.report.table import markdown
from seq2seq_attn.text.files import write_bytes

RESULTS, CURVES, ATTENTION = "results.json", "curves.json", "attention.json"


def write_report(folder: Path) -> list[Path]:
    """Make table.md and the pictures (PNG and SVG) of the folder's three JSON files; the paths written.

    UserError if a file is missing or malformed; then nothing is written.
    """
    results = Results.load(folder / RESULTS)
    runs, maps = load_curves(folder / CURVES), load_attention(folder / ATTENTION)
    _refuse_strangers(folder / CURVES, runs, results)
    _refuse_strangers(folder / ATTENTION, (shown.arm for shown in maps), results)

    table = folder / "table.md"
    write_bytes(table, markdown(results).encode())
    written = [table]
    for name, figure in _figures(results, runs, maps):
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            write_bytes(path, render(figure, kind))
            written.append(path)
    return written


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
        for shown in arms:
            yield f"attention_{number}_{slug(shown.arm)}", heatmap([shown])
        if len(arms) > 1:
            yield f"attention_{number}", heatmap(arms)
