"""Sittings as a page of Markdown, with its pictures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2seq_attn.bench.pictures import pictures
from seq2seq_attn.bench.results import Sitting
from seq2seq_attn.bench.table import Table, tables
from seq2seq_attn.report.figure_style import render
from seq2seq_attn.text.files import write_bytes

_HEAD = """\
# Speed

Made by

```
{command}
```

from what `seq2seq-attn bench` has measured, as [benchmarks](../benchmarks/README.md) tells. A figure is the median over
the rounds, with the least and the greatest in brackets if there were several; in a round the systems were measured in
turn. Figures of one sitting can be compared with each other, not with those of another.

Training cannot be faster than its floor on that machine at that time: the matrix products that a step needs, each at
its real shape and by the fastest way that torch has, and after them what the rest of a step must read and write, at
the rate at which tensors of that size are copied
([`products.py`](../seq2seq_attn/bench/products.py), [`traffic.py`](../seq2seq_attn/bench/traffic.py)).
"""

_SITTING = """\
## {started}

{hardware}. seq2seq_attn {version}, commit {commit}. {corpus}; {batches} batches after {warm_up} to warm up, {rounds}.
"""


def write_page(path: Path, files: Sequence[Path]) -> list[Path]:
    """The page of the sittings in these files, and its pictures in the folder of its name; the paths written."""
    sittings = [Sitting.load(file) for file in files]
    folder = path.with_suffix("")
    sections, written = [], [path]
    for number, sitting in enumerate(sittings, start=1):
        images = []
        for name, figure in pictures(sitting):
            image = folder / f"{number}_{name}.svg"
            write_bytes(image, render(figure, "svg"))
            images.append(f"![{name.replace('_', ' ')}]({folder.name}/{image.name})")
            written.append(image)
        sections.append(section(sitting, images))
    command = " ".join(["seq2seq-attn bench", *(f"--from {file}" for file in files), f"--page {path}"])
    write_bytes(path, "\n".join([_HEAD.format(command=command), *sections]).encode())
    return written


def section(sitting: Sitting, images: Sequence[str]) -> str:
    head = _SITTING.format(
        started=sitting.started,
        hardware=sitting.hardware,
        version=sitting.version,
        commit=sitting.commit or "unknown",
        corpus=sitting.corpus,
        batches=sitting.batches,
        warm_up=sitting.warm_up,
        rounds=_rounds(max((len(figure.values) for figure in sitting.figures), default=0)),
    )
    return "\n\n".join([head.rstrip(), *map(markdown, tables(sitting)), *images]) + "\n"


def _rounds(number: int) -> str:
    return f"{number} round" if number == 1 else f"{number} rounds"


def markdown(table: Table) -> str:
    rules = ["---", *["---:"] * (len(table.header) - 1)]
    return "\n".join(
        [f"### {table.title}", "", *(f"| {' | '.join(row)} |" for row in (table.header, rules, *table.rows))]
    )
