"""What several commands share: arguments and options, examples in help texts, and the model they work with.

In every command, what it works on is a positional argument and everything else an option: RUN SOURCE TARGET.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.runs import require_run

if TYPE_CHECKING:
    from seq2seq_attn.api.model import Model


def argument(metavar: str, help: str, **rest: Any) -> Any:
    """A positional argument."""
    return typer.Argument(metavar=metavar, help=help, **rest)


def file(help: str) -> Any:
    """An option that takes a file."""
    return typer.Option(metavar="FILE", help=help)


def folder(help: str, **rest: Any) -> Any:
    """An option that takes a folder."""
    return typer.Option(metavar="DIR", help=help, **rest)


def examples(*commands: str) -> str:
    """The examples at the end of a help text; `\\b` preserves their line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


def a_run(given: Path | None) -> Path | None:
    """A callback for arguments that name a run folder: refuses another one before anything heavy is imported."""
    if given is not None:
        require_run(given)
    return given


RunFolder = Annotated[Path, argument("RUN", "A run folder, as written by train.", callback=a_run)]
Overrides = Annotated[
    list[str] | None,
    argument(
        "KEY.PATH=VALUE",
        "Replaces a value of the file; VALUE is YAML, as in training.batch_size=32 or evaluation.bands=[10,20].",
    ),
]
SourceFile = Annotated[Path, argument("SOURCE", "Source sentences, one per line; plain or .gz.")]
TargetFile = Annotated[Path, argument("TARGET", "Their translations, line by line; plain or .gz.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
Plugin = Annotated[
    list[Path] | None,
    file("A Python file to import first; configurations can name its Scorer classes. Repeatable."),
]
AttentionFile = Annotated[
    Path | None,
    file("Write the attention weights, token by token, as JSON lines (.jsonl) or for NumPy (.npz): docs/alignment.md."),
]


def load_model(run: Path, plugin: list[Path] | None) -> Model:
    """The model of a run folder; imports the user's plugins first.

    Tunes the memory allocation of this process, which the command line owns; the package in Python does not.
    """
    from seq2seq_attn.api.model import Model
    from seq2seq_attn.ops.host import keep_freed_memory
    from seq2seq_attn.runs.plugin import load_plugins

    keep_freed_memory()
    load_plugins(plugin)
    return Model.load(run)
