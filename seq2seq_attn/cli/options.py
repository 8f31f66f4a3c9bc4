"""Arguments and options that several commands share, and how the help shows examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def argument(metavar: str, help: str) -> Any:
    """A positional argument."""
    return typer.Argument(metavar=metavar, help=help)


def file(help: str) -> Any:
    """An option that names a file."""
    return typer.Option(metavar="FILE", help=help)


def folder(help: str) -> Any:
    """An option that names a folder."""
    return typer.Option(metavar="DIR", help=help)


def examples(*commands: str) -> str:
    """The end of a help text; `\\b` keeps the lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


Run = Annotated[Path, argument("RUN", "A run folder, as train writes it.")]
Overrides = Annotated[
    list[str] | None,
    argument(
        "KEY.PATH=VALUE",
        "Laid over the file; the value is YAML, as in training.batch_size=32 or evaluation.bands=[10,20].",
    ),
]
Source = Annotated[Path, file("Source sentences, one a line; plain or .gz.")]
Target = Annotated[Path, file("Their translations, line by line; plain or .gz.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for a program to read.")]
Plugin = Annotated[
    list[Path] | None,
    file("A Python file to import first: its Scorer classes can be named in a configuration. Repeatable."),
]
AttentionFile = Annotated[
    Path | None,
    file("Write what was read, token by token, as JSON lines (.jsonl) or for NumPy (.npz): see docs/alignment.md."),
]
